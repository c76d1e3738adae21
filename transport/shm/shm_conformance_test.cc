#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>

#include "common/log.h"
#include "common/testing/temp_dir.h"
#include "transport/shm/pin_page.h"
#include "transport/shm/shm_server.h"
#include "transport/shm/shm_transport.h"
#include "transport/stream/socket.h"
#include "transport/testing/conformance.h"
#include "transport/testing/raw_listener.h"

namespace moonpool::transport {
namespace {

struct Kind {
  bool mapped_writes = true;
  bool survives_node = false;  // pool and pins are files
};

class ShmUnderTest final : public BackendUnderTest {
 public:
  explicit ShmUnderTest(const Kind& kind) : kind_(kind) {}

  Traits traits() const override {
    return {.has_views = true,
            .has_mapped_writers = kind_.mapped_writes,
            .crosses_processes = true,
            .has_sockets = true,
            .is_threaded = true};
  }
  // Made with the first scene: a client that is killed leaves no folder behind.
  std::string pool_folder() override {
    if (!kind_.survives_node) return {};
    return pool_dir_.emplace(kTmpfs).path();
  }
  std::unique_ptr<Server> MakeServer(FakeTarget& target) override {
    std::vector<ShmSegment> segments;
    for (uint32_t i = 0; i < target.segment_count(); ++i) {
      segments.push_back({SegmentId{i}, target.segment_fd(i), target.segment_bytes(i)});
    }
    ShmServerOptions options;
    options.socket_path = dir_.path() + "/node.sock";
    if (kind_.survives_node) options.pins_dir = pool_dir_->path() + "/pins";
    return NewShmServer(target, segments, options, clock_, Logger::Null());
  }
  std::unique_ptr<Transport> MakeTransport(const ClientOptions& options) override {
    ShmClientOptions shm;
    shm.host_id = "host";
    shm.mapped_writes = kind_.mapped_writes;
    if (options.outstanding_ops_max) shm.outstanding_ops_max = *options.outstanding_ops_max;
    return NewShmTransport(shm, clock_);
  }
  PeerAddress PeerAt(const std::string& server_address, Incarnation incarnation) override {
    return {.name = "node",
            .incarnation = incarnation,
            .host_id = "host",
            .tcp_address = "",
            .shm_path = server_address};
  }
  PeerAddress DeadPeer() override {
    return PeerAt(dir_.path() + "/nobody.sock", Incarnation{0x1234});
  }
  std::shared_ptr<void> ListenRaw(std::function<void(int fd)> script,
                                  std::string* address) override {
    *address = dir_.path() + "/raw.sock";
    const SocketAddress unix_address = *UnixAddress(*address);
    unlink(address->c_str());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(
        bind(fd, reinterpret_cast<const sockaddr*>(&unix_address.storage), unix_address.length), 0);
    EXPECT_EQ(listen(fd, 8), 0);
    return std::make_shared<RawListener>(fd, std::move(script));
  }
  bool AnswerHello(int fd) override {
    HelloAnswer answer = PlainHelloAnswer();
    const auto encode = [&answer](std::byte* to) { return EncodeHelloOk(1, answer, to); };
    if ((TakeHello(fd).wants & kHelloMapping) == 0) return SendFrame(fd, encode);
    const auto pins = PinPage::Create(8);
    answer.grants = kHelloMapping;
    answer.pin_slots = 8;
    const int descriptor = (*pins)->fd();
    SendFrame(fd, encode, absl::MakeConstSpan(&descriptor, 1));
    return false;
  }
  Waiter& waiter() override { return waiter_; }

 private:
  const Kind kind_;
  TempDir dir_;
  std::optional<TempDir> pool_dir_;
  SteadyClock clock_;
  PollWaiter waiter_{clock_};
};

bool Register(const std::string& name, const Kind& kind) {
  return RegisterTransportConformance(name,
                                      [kind] { return std::make_unique<ShmUnderTest>(kind); });
}

[[maybe_unused]] const bool mapped_registered = Register("ShmMapped", {});
[[maybe_unused]] const bool streamed_registered = Register("ShmStreamed", {.mapped_writes = false});
[[maybe_unused]] const bool files_registered = Register("ShmFiles", {.survives_node = true});

}  // namespace
}  // namespace moonpool::transport
