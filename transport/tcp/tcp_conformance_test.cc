#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/log.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/conformance.h"
#include "transport/testing/conformance_scene.h"
#include "transport/testing/raw_listener.h"

namespace moonpool::transport {
namespace {

class TcpUnderTest final : public BackendUnderTest {
 public:
  explicit TcpUnderTest(TcpClientOptions client_options)
      : client_options_(std::move(client_options)) {}

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
    TcpClientOptions tcp = client_options_;
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

  const TcpClientOptions client_options_;
  SteadyClock clock_;
  PollWaiter waiter_{clock_};
};

[[maybe_unused]] const bool registered = RegisterTransportConformance(
    "Tcp", [] { return std::make_unique<TcpUnderTest>(TcpClientOptions{}); });

// All that can be lent to other threads is.
[[maybe_unused]] const bool registered_driven = RegisterTransportConformance("TcpDriven", [] {
  return std::make_unique<TcpUnderTest>(
      TcpClientOptions{.streams = 3, .driver_threads = 2, .lent_bytes_min = 1});
});

size_t DriverThreadsOfProcess() {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "mp-stream") ++count;
  }
  return count;
}

TEST(TcpDrivers, HelpWithLargeBatchesAlone) {
  constexpr uint64_t kBytes = 1 << 20;
  constexpr size_t kParts = 16;
  ConformanceScene scene(std::make_unique<TcpUnderTest>(
      TcpClientOptions{.streams = 2, .driver_threads = 1, .lent_bytes_min = 4 * kBytes}));
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::vector<std::byte>> got(kParts, std::vector<std::byte>(kBytes));
  std::vector<WriteOp> writes;
  std::vector<ReadOp> reads;
  for (uint32_t i = 0; i < kParts; ++i) {
    payloads.push_back(PatternBytes(kBytes, i));
    const SealRecord record = RecordAt(i * (kBytes + 4096), kBytes, i + 1);
    writes.push_back(WriteOf(record, payloads.back()));
    reads.push_back(ReadOf(record.generation, record.extent, MutableBytes(got[i])));
  }
  for (size_t i = 0; i < 4; ++i) ASSERT_THAT(channel->Submit(&writes[i]), IsOk());
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  EXPECT_EQ(DriverThreadsOfProcess(), 0u);
  for (size_t i = 4; i < kParts; ++i) ASSERT_THAT(channel->Submit(&writes[i]), IsOk());
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  EXPECT_EQ(DriverThreadsOfProcess(), 1u);
  for (ReadOp& read : reads) ASSERT_THAT(channel->Submit(&read), IsOk());
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  for (size_t i = 0; i < kParts; ++i) {
    EXPECT_THAT(writes[i].status, IsOk());
    EXPECT_THAT(reads[i].status, IsOk());
    EXPECT_EQ(got[i], payloads[i]) << i;
  }
}

}  // namespace
}  // namespace moonpool::transport
