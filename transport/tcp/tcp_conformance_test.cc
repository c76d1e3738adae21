#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "common/log.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/conformance.h"
#include "transport/testing/raw_listener.h"

namespace moonpool::transport {
namespace {

class TcpUnderTest final : public BackendUnderTest {
 public:
  Traits traits() const override {
    return {.has_views = false,
            .has_mapped_writers = false,
            .crosses_processes = true,
            .has_sockets = true,
            .is_threaded = true};
  }
  std::unique_ptr<Server> MakeServer(FakeTarget& target) override {
    return NewTcpServer(target, {}, clock_, Logger::Null());
  }
  std::unique_ptr<Transport> MakeTransport(const ClientOptions& options) override {
    TcpClientOptions tcp;
    if (options.outstanding_ops_max) tcp.outstanding_ops_max = *options.outstanding_ops_max;
    return NewTcpTransport(tcp, clock_);
  }
  PeerAddress PeerAt(const std::string& server_address, Incarnation incarnation) override {
    return {.name = "node",
            .incarnation = incarnation,
            .host_id = "",
            .tcp_address = server_address,
            .shm_path = ""};
  }
  PeerAddress DeadPeer() override {
    // Bound and closed again: nobody listens there.
    const int fd = Bound();
    const std::string address = LocalAddress(fd).ToString();
    UniqueFd closing(fd);
    return PeerAt(address, Incarnation{0x1234});
  }
  std::shared_ptr<void> ListenRaw(std::function<void(int fd)> script,
                                  std::string* address) override {
    const int fd = Bound();
    EXPECT_EQ(listen(fd, 8), 0);
    *address = LocalAddress(fd).ToString();
    return std::make_shared<RawListener>(fd, std::move(script));
  }
  bool AnswerHello(int fd) override {
    TakeHello(fd);
    return SendFrame(fd, [](std::byte* to) { return EncodeHelloOk(1, PlainHelloAnswer(), to); });
  }
  Waiter& waiter() override { return waiter_; }

 private:
  static int Bound() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    return fd;
  }

  SteadyClock clock_;
  PollWaiter waiter_{clock_};
};

[[maybe_unused]] const bool registered =
    RegisterTransportConformance("Tcp", [] { return std::make_unique<TcpUnderTest>(); });

}  // namespace
}  // namespace moonpool::transport
