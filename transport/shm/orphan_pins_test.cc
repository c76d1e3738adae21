// What the next life of a node learns of the clients of the last one.
#include "transport/shm/orphan_pins.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "transport/shm/pin_file.h"
#include "transport/shm/shm_server.h"
#include "transport/shm/shm_transport.h"
#include "transport/testing/conformance_scene.h"
#include "transport/testing/fake_target.h"

namespace moonpool::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Orphans = std::vector<std::unique_ptr<OrphanPins>>;

constexpr uint32_t kSlots = 8;

Generation Gen(uint32_t counter) { return Generation::Of(Term{1}, counter); }

class OrphanPinsTest : public testing::Test {
 protected:
  // A client of a life that has ended.
  std::unique_ptr<PinSlots> Client() {
    auto page = PinFile::Create(dir_.path(), kSlots);
    EXPECT_THAT(page, IsOk());
    auto client = PinSlots::Map((*page)->fd(), kSlots, {.giver = geteuid()});
    EXPECT_THAT(client, IsOk());
    (*page)->LeaveToNextLife();
    return *std::move(client);
  }
  Orphans Adopt(const OrphanPins::Claims& mapped_claims = {}) {
    auto adopted = AdoptPinPages(dir_.path(), mapped_claims);
    EXPECT_THAT(adopted, IsOk());
    return *std::move(adopted);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::string At(const std::string& name) const { return dir_.path() + "/" + name; }

  const TempDir dir_{kTmpfs};
};

TEST_F(OrphanPinsTest, HoldsWhatTheClientHoldsUntilTheClientEnds) {
  auto client = Client();
  ASSERT_OK_AND_ASSIGN(const uint32_t slot, client->Acquire(Gen(1)));
  const Orphans orphans = Adopt();
  ASSERT_THAT(orphans, SizeIs(1));
  const OrphanPins& pins = *orphans[0];
  EXPECT_TRUE(pins.Holds(Gen(1)));
  EXPECT_FALSE(pins.Holds(Gen(2)));
  client->Release(slot);
  EXPECT_FALSE(pins.Holds(Gen(1)));
  // In the moment in which it has not noticed that its node has died.
  ASSERT_THAT(client->Acquire(Gen(2)), IsOk());
  EXPECT_TRUE(pins.Holds(Gen(2)));

  EXPECT_FALSE(pins.has_ended());
  EXPECT_THAT(Files(), SizeIs(1));
  client.reset();
  EXPECT_FALSE(pins.Holds(Gen(2)));
  EXPECT_TRUE(pins.has_ended());
  EXPECT_THAT(Files(), IsEmpty());
}

// Any of the clients may be the writer of any of the claims.
TEST_F(OrphanPinsTest, EachHoldsTheMappedClaimsUntilItsClientEnds) {
  auto one = Client();
  auto other = Client();
  Orphans orphans = Adopt({Gen(7), Gen(8)});
  ASSERT_THAT(orphans, SizeIs(2));
  const auto held = [&] {
    return std::count_if(orphans.begin(), orphans.end(), [](const auto& pins) {
      return pins->Holds(Gen(7)) && pins->Holds(Gen(8)) && !pins->Holds(Gen(9));
    });
  };
  EXPECT_EQ(held(), 2);
  one.reset();
  EXPECT_EQ(held(), 1);
  other.reset();
  EXPECT_EQ(held(), 0);
}

// Each life that adopts a page leaves it to the one after.
TEST_F(OrphanPinsTest, ManyLivesLater) {
  auto client = Client();
  ASSERT_THAT(client->Acquire(Gen(1)), IsOk());
  for (int life = 0; life < 3; ++life) {
    const Orphans orphans = Adopt();
    ASSERT_THAT(orphans, SizeIs(1));
    EXPECT_TRUE(orphans[0]->Holds(Gen(1)));
  }
  client.reset();
  EXPECT_THAT(Adopt(), IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(OrphanPinsTest, PagesOfNobodyAreRemovedAtOnce) {
  Client().reset();
  Client().reset();
  std::ofstream(At("pins-0123456789abcdef")) << "short";
  EXPECT_THAT(Files(), SizeIs(3));
  EXPECT_THAT(Adopt(), IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
}

// Only the client itself loses.
TEST_F(OrphanPinsTest, AClientThatCutsItsPageShortDoesNoHarm) {
  ASSERT_OK_AND_ASSIGN(const auto page, PinFile::Create(dir_.path(), kSlots));
  ASSERT_OK_AND_ASSIGN(const auto client, PinSlots::Map(page->fd(), kSlots, {.giver = geteuid()}));
  ASSERT_THAT(client->Acquire(Gen(1)), IsOk());
  const Orphans orphans = Adopt({Gen(7)});
  ASSERT_THAT(orphans, SizeIs(1));
  EXPECT_TRUE(orphans[0]->Holds(Gen(1)));
  for (const off_t bytes : {off_t{1} << 40, off_t{71}, off_t{63}, off_t{0}}) {
    ASSERT_EQ(ftruncate(page->fd(), bytes), 0);
    EXPECT_EQ(orphans[0]->Holds(Gen(1)), bytes > 72) << bytes;
    EXPECT_TRUE(orphans[0]->Holds(Gen(7)));
    EXPECT_FALSE(orphans[0]->has_ended());
  }
}

TEST_F(OrphanPinsTest, APageThatIsAllOnesIsReadToItsBound) {
  ASSERT_OK_AND_ASSIGN(const auto page, PinFile::Create(dir_.path(), kSlots));
  const std::vector<std::byte> ones(PinPageBytes(kPinSlotsMax) + 64, std::byte{0xff});
  ASSERT_EQ(pwrite(page->fd(), ones.data(), ones.size(), 0), static_cast<ssize_t>(ones.size()));
  const Generation last = Gen(5);
  const auto put_last = [&](uint64_t slot) {
    ASSERT_EQ(pwrite(page->fd(), &last, sizeof(last), static_cast<off_t>(64 + 8 * slot)), 8);
  };
  const Orphans orphans = Adopt();
  ASSERT_THAT(orphans, SizeIs(1));
  put_last(kPinSlotsMax);
  EXPECT_FALSE(orphans[0]->Holds(last));
  put_last(kPinSlotsMax - 1);
  EXPECT_TRUE(orphans[0]->Holds(last));
}

TEST_F(OrphanPinsTest, WhatIsNoPageIsPassedOver) {
  const TempDir elsewhere;
  const std::string precious = elsewhere.path() + "/precious";
  std::ofstream(precious) << "precious";
  std::ofstream(At("notes")) << "of somebody";
  std::ofstream(At("pins-0123456789abcde")) << "too short a name";
  std::ofstream(At("pins-0123456789abcdefg")) << "too long a name";
  ASSERT_EQ(mkdir(At("pins-0000000000000001").c_str(), 0700), 0);
  ASSERT_EQ(symlink(precious.c_str(), At("pins-0000000000000002").c_str()), 0);
  ASSERT_EQ(mkfifo(At("pins-0000000000000003").c_str(), 0600), 0);
  // A page like any other, but for whose it is.
  size_t expected = 6;
  if (geteuid() == 0) {
    std::ofstream(At("pins-0000000000000004")) << "a stranger's";
    ASSERT_EQ(chown(At("pins-0000000000000004").c_str(), 54321, static_cast<gid_t>(-1)), 0);
    ++expected;
  }
  EXPECT_THAT(Adopt({Gen(1)}), IsEmpty());
  EXPECT_THAT(Files(), SizeIs(expected));
  EXPECT_TRUE(std::filesystem::exists(precious));
}

TEST_F(OrphanPinsTest, AFolderThatCannotBeReadToItsEndIsAnError) {
  EXPECT_THAT(AdoptPinPages(At("none"), {}), IsOk());
  std::ofstream(At("a")) << "";
  std::ofstream(At("b")) << "";
  EXPECT_THAT(AdoptPinPages(dir_.path(), {}, 2), IsOk());
  const absl::Status many = AdoptPinPages(dir_.path(), {}, 1).status();
  EXPECT_THAT(many, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_THAT(std::string(many.message()), HasSubstr(dir_.path()));
  EXPECT_THAT(AdoptPinPages(At("a"), {}),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
}

// --- A node that is killed, and its next life ----------------------------------------------------

constexpr uint64_t kPoolBytes = 1 << 20;
constexpr size_t kPayloadBytes = 100'000;
constexpr Incarnation kIncarnation{0x1234};
constexpr absl::Duration kPatience = ConformanceScene::kPatience;

// A process of its own, forked before the test starts a thread. It does its work when it is told
// to, says whether that went well, and waits to be killed.
class Process {
 public:
  explicit Process(const std::function<void()>& work) {
    if (pipe2(go_.data(), O_CLOEXEC) != 0 || pipe2(done_.data(), O_CLOEXEC) != 0) abort();
    pid_ = fork();
    if (pid_ != 0) {
      close(go_[0]);
      close(done_[1]);
      return;
    }
    close(go_[1]);
    char byte = 0;
    if (read(go_[0], &byte, 1) != 1) _exit(1);
    work();
    if (testing::Test::HasFailure() || write(done_[1], &byte, 1) != 1) _exit(1);
    [[maybe_unused]] const ssize_t parent_is_gone = read(go_[0], &byte, 1);
    _exit(0);
  }
  ~Process() {
    Kill();
    close(go_[1]);
    close(done_[0]);
  }
  // True once the work is done.
  bool Run() {
    char byte = 1;
    return write(go_[1], &byte, 1) == 1 && read(done_[0], &byte, 1) == 1;
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  std::array<int, 2> go_;
  std::array<int, 2> done_;
  pid_t pid_ = 0;
};

class NextLifeTest : public testing::Test {
 protected:
  std::unique_ptr<Server> NewServer(FakeTarget& target) {
    ShmServerOptions options;
    options.socket_path = dir_.path() + "/node.sock";
    options.pin_slots = kSlots;
    options.pins_dir = dir_.path() + "/pins";
    return NewShmServer(target, {{SegmentId{0}, target.segment_fd(0), kPoolBytes}}, options, clock_,
                        Logger::Null());
  }
  std::unique_ptr<FakeTarget> NewTarget() {
    return std::make_unique<FakeTarget>(kIncarnation, std::vector<uint64_t>{kPoolBytes},
                                        dir_.path());
  }
  // The whole life of a node, until its process is killed.
  void ServeForEver() {
    FakeTarget* const target = NewTarget().release();
    Server* const server = NewServer(*target).release();
    ASSERT_THAT(server->Start(), IsOk());
  }
  CallContext Soon() const { return {.deadline = clock_.Now() + kPatience, .cancel = {}}; }
  PeerAddress Peer() const {
    return {.name = "node",
            .incarnation = kIncarnation,
            .host_id = "",
            .tcp_address = "",
            .shm_path = dir_.path() + "/node.sock"};
  }
  std::unique_ptr<Channel> Connect(Transport& transport) {
    auto channel = transport.Connect(Peer(), Soon());
    EXPECT_THAT(channel, IsOk());
    return channel.ok() ? *std::move(channel) : nullptr;
  }
  void Put(Channel& channel) {
    WriteOp op = WriteOf(record_, payload_);
    ASSERT_THAT(channel.Submit(&op), IsOk());
    Channel* const one[] = {&channel};
    PollWaiter waiter(clock_);
    ASSERT_THAT(CompleteAll(one, Soon(), waiter), IsOk());
    ASSERT_THAT(op.status, IsOk());
  }
  std::unique_ptr<PinnedPart> View(Channel& channel) {
    auto view = channel.views()->OpenView(record_.generation, record_.extent);
    EXPECT_THAT(view, IsOk());
    return view.ok() ? *std::move(view) : nullptr;
  }

  const TempDir dir_{kTmpfs};
  const SteadyClock clock_ = {};
  const SealRecord record_ = RecordAt(0, kPayloadBytes, 1);
  const std::vector<std::byte> payload_ = PatternBytes(kPayloadBytes, 1);
};

// A node's next life on the pool of the last one.
class NextLife {
 public:
  NextLife(std::unique_ptr<FakeTarget> target, const std::string& pins_dir,
           const SealRecord& record)
      : target_(std::move(target)) {
    target_->Restore(record);
    auto adopted = AdoptPinPages(pins_dir, {});
    EXPECT_THAT(adopted, IsOk());
    orphans_ = *std::move(adopted);
    for (const auto& pins : orphans_) target_->AttachViewer(pins.get());
  }
  ~NextLife() {
    for (const auto& pins : orphans_) target_->DetachViewer(pins.get());
  }
  FakeTarget& target() { return *target_; }
  const Orphans& orphans() const { return orphans_; }
  // Whether the bytes get another owner.
  absl::Status Take(const SealRecord& record) {
    const Generation newer{record.generation.value + 1};
    return target_->Claim(newer, record.extent, WriterKind::kStepwise).status();
  }

 private:
  const std::unique_ptr<FakeTarget> target_;
  Orphans orphans_;
};

auto IsPinned() { return Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned); }

TEST_F(NextLifeTest, AViewKeepsItsBytesUntilItIsReleased) {
  Process node([this] { ServeForEver(); });
  ASSERT_TRUE(node.Run());
  const auto transport = NewShmTransport({}, clock_);
  auto channel = Connect(*transport);
  ASSERT_NE(channel, nullptr);
  Put(*channel);
  auto view = View(*channel);
  ASSERT_NE(view, nullptr);
  node.Kill();
  EXPECT_FALSE(view->still_pinned()) << "nobody has told the client that there will be a next life";

  NextLife next(NewTarget(), dir_.path() + "/pins", record_);
  ASSERT_THAT(next.orphans(), SizeIs(1));
  EXPECT_THAT(next.Take(record_), IsPinned());
  // The new life serves, to the same client too, and the view lasts.
  const auto server = NewServer(next.target());
  ASSERT_THAT(server->Start(), IsOk());
  const auto again = Connect(*transport);
  ASSERT_NE(again, nullptr);
  const auto second = View(*again);
  channel.reset();
  EXPECT_THAT(next.Take(record_), IsPinned());
  EXPECT_TRUE(
      std::equal(payload_.begin(), payload_.end(), view->payload().begin(), view->payload().end()));
  view.reset();
  EXPECT_TRUE(next.orphans()[0]->has_ended());
  EXPECT_THAT(next.Take(record_), IsPinned()) << "by the view of this life";
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(second->still_pinned());
  server->Stop();
  EXPECT_THAT(next.Take(record_), IsOk());
}

TEST_F(NextLifeTest, AViewKeepsItsBytesUntilItsProcessIsKilled) {
  Process node([this] { ServeForEver(); });
  Process client([this] {
    const auto transport = NewShmTransport({}, clock_);
    const auto channel = Connect(*transport);
    ASSERT_NE(channel, nullptr);
    Put(*channel);
    (void)View(*channel).release();
  });
  ASSERT_TRUE(node.Run());
  ASSERT_TRUE(client.Run());
  node.Kill();
  NextLife next(NewTarget(), dir_.path() + "/pins", record_);
  EXPECT_THAT(next.Take(record_), IsPinned());
  client.Kill();
  EXPECT_THAT(next.Take(record_), IsOk());
  EXPECT_TRUE(next.orphans().at(0)->has_ended());
}

// A restart for an upgrade: the server says goodbye to clients that go on looking.
TEST_F(NextLifeTest, AViewKeepsItsBytesOverAnOrderlyStop) {
  const auto transport = NewShmTransport({}, clock_);
  std::unique_ptr<PinnedPart> view;
  {
    const auto target = NewTarget();
    const auto server = NewServer(*target);
    ASSERT_THAT(server->Start(), IsOk());
    const auto channel = Connect(*transport);
    ASSERT_NE(channel, nullptr);
    Put(*channel);
    view = View(*channel);
    ASSERT_NE(view, nullptr);
    server->Stop();
    EXPECT_EQ(target->viewer_count(), 0u);
  }
  EXPECT_FALSE(view->still_pinned());
  NextLife next(NewTarget(), dir_.path() + "/pins", record_);
  EXPECT_THAT(next.Take(record_), IsPinned());
  view.reset();
  EXPECT_THAT(next.Take(record_), IsOk());
}

TEST_F(NextLifeTest, AClientThatSaysGoodbyeLeavesNothing) {
  const auto target = NewTarget();
  const auto server = NewServer(*target);
  ASSERT_THAT(server->Start(), IsOk());
  const std::filesystem::directory_iterator end;
  const auto has_pages = [&] {
    return std::filesystem::directory_iterator(dir_.path() + "/pins") != end;
  };
  {
    const auto transport = NewShmTransport({}, clock_);
    const auto channel = Connect(*transport);
    EXPECT_TRUE(has_pages());
  }
  EXPECT_TRUE(Eventually([&] { return !has_pages(); }));
  server->Stop();
}

}  // namespace
}  // namespace moonpool::transport
