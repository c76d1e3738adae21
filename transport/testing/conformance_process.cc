// A client process that is killed leaves nothing behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "transport/testing/conformance_scene.h"

namespace moonpool::transport {
namespace {

constexpr size_t kSize = 8 << 20;

// Forked before the parent starts a thread. Waits for the address of the node, does its work, says
// so, and waits to be killed.
class ChildClient {
 public:
  using Work = std::function<void(Transport& transport, const PeerAddress& peer)>;

  ChildClient(const BackendFactory& factory, const Work& work) {
    if (pipe(to_child_.data()) != 0 || pipe(from_child_.data()) != 0) abort();
    pid_ = fork();
    if (pid_ != 0) return;
    char address[256] = {};
    if (read(to_child_[0], address, sizeof(address) - 1) <= 0) _exit(1);
    const auto backend = factory();
    const auto transport = backend->MakeTransport({});
    work(*transport, backend->PeerAt(address, Incarnation{0x1234}));
    if (testing::Test::HasFailure() || write(from_child_[1], "k", 1) != 1) _exit(1);
    while (true) pause();
  }
  ~ChildClient() {
    Kill();
    for (const int fd : to_child_) close(fd);
    for (const int fd : from_child_) close(fd);
  }

  // True once the child has done its work.
  bool Send(const std::string& address) {
    if (write(to_child_[1], address.data(), address.size()) < 0) return false;
    close(std::exchange(from_child_[1], -1));
    char byte;
    return read(from_child_[0], &byte, 1) == 1;
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  std::array<int, 2> to_child_;
  std::array<int, 2> from_child_;
  pid_t pid_ = 0;
};

CallContext Patiently() {
  return {.deadline = SteadyClock().Now() + ConformanceScene::kPatience, .cancel = {}};
}

void KilledViewerReleasesItsPins(const BackendFactory& factory) {
  if (const auto traits = factory()->traits(); !traits.crosses_processes || !traits.has_views) {
    GTEST_SKIP() << "no views from other processes";
  }
  ChildClient child(factory, [](Transport& transport, const PeerAddress& peer) {
    auto channel = transport.Connect(peer, Patiently());
    ASSERT_THAT(channel, IsOk());
    const SealRecord record = RecordAt(0, kSize, 1);
    auto view = (*channel)->views()->OpenView(record.generation, record.extent);
    ASSERT_THAT(view, IsOk());
    view->release();  // held until the process dies
    (void)channel->release();
  });
  ConformanceScene scene(factory());
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  const std::vector<std::byte> payload = PatternBytes(kSize, 1);
  ASSERT_THAT(scene.Write(*channel, RecordAt(0, kSize, 1), payload), IsOk());
  ASSERT_TRUE(child.Send(scene.server().address()));
  const SealRecord newer = RecordAt(0, kSize, 2);
  EXPECT_THAT(scene.Write(*channel, newer, payload),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  child.Kill();
  EXPECT_TRUE(Eventually([&] { return scene.Write(*channel, newer, payload).ok(); }));
}

void KilledWriterReleasesItsClaims(const BackendFactory& factory) {
  if (!factory()->traits().crosses_processes) GTEST_SKIP() << "one process";
  static const std::vector<std::byte> payload = PatternBytes(kSize, 1);
  ChildClient child(factory, [](Transport& transport, const PeerAddress& peer) {
    auto channel = transport.Connect(peer, Patiently());
    ASSERT_THAT(channel, IsOk());
    static WriteOp op = WriteOf(RecordAt(0, kSize, 1), payload);
    ASSERT_THAT((*channel)->Submit(&op), IsOk());
    (*channel)->Progress();  // a part of it is on its way
    (void)channel->release();
  });
  ConformanceScene scene(factory());
  ASSERT_TRUE(child.Send(scene.server().address()));
  ASSERT_TRUE(Eventually([&] { return scene.target().open_claims() == 1; }));
  child.Kill();
  EXPECT_TRUE(Eventually([&] { return scene.target().open_claims() == 0; }));
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  EXPECT_THAT(scene.Write(*channel, RecordAt(0, kSize, 2), payload), IsOk());
}

}  // namespace

std::vector<ProcessCase> ProcessCases() {
  return {{"KilledViewerReleasesItsPins", KilledViewerReleasesItsPins},
          {"KilledWriterReleasesItsClaims", KilledWriterReleasesItsClaims}};
}

}  // namespace moonpool::transport
