#include "transport/waiter.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "common/testing/status_matchers.h"

namespace moonpool::transport {
namespace {

// Finishes its one read as soon as its descriptor is readable.
class EventChannel final : public Channel {
 public:
  EventChannel() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~EventChannel() override { close(fd_); }

  void Fire() {
    const uint64_t one = 1;
    ASSERT_EQ(write(fd_, &one, sizeof(one)), 8);
  }

  absl::string_view backend() const override { return "event"; }
  absl::Status Submit(ReadOp* op) override {
    op_ = op;
    return absl::OkStatus();
  }
  absl::Status Submit(WriteOp*) override { return absl::UnimplementedError(""); }
  void Doubt(Generation, const Extent&) override {}
  bool Progress() override {
    uint64_t count;
    if (op_ == nullptr || read(fd_, &count, sizeof(count)) != sizeof(count)) return false;
    Finish(absl::OkStatus());
    return true;
  }
  size_t outstanding() const override { return op_ == nullptr ? 0 : 1; }
  void AppendWaits(std::vector<pollfd>* waits) const override {
    if (op_ != nullptr) waits->push_back({fd_, POLLIN, 0});
  }
  void Abandon(const absl::Status& status) override {
    if (op_ != nullptr) Finish(status);
  }
  bool healthy() const override { return true; }
  ViewSource* views() override { return nullptr; }

 private:
  void Finish(const absl::Status& status) {
    op_->status = status;
    op_->done = true;
    op_ = nullptr;
  }

  const int fd_;
  ReadOp* op_ = nullptr;
};

struct WaiterTest : testing::Test {
  SteadyClock clock;
  PollWaiter waiter{clock};
  EventChannel a, b;
  ReadOp read_a, read_b;
};

TEST_F(WaiterTest, ReturnsAtOnceWhenNothingIsOutstanding) {
  Channel* channels[] = {&a, &b};
  EXPECT_THAT(CompleteAll(channels, {.deadline = clock.Now(), .cancel = {}}, waiter), IsOk());
}

TEST_F(WaiterTest, WaitsForEveryChannel) {
  ASSERT_THAT(a.Submit(&read_a), IsOk());
  ASSERT_THAT(b.Submit(&read_b), IsOk());
  a.Fire();
  std::thread later([this] { b.Fire(); });
  Channel* channels[] = {&a, &b};
  EXPECT_THAT(CompleteAll(channels, {}, waiter), IsOk());
  EXPECT_TRUE(read_a.done && read_b.done);
  later.join();
}

TEST_F(WaiterTest, DeadlineAbandonsWhatIsLeftOnly) {
  ASSERT_THAT(a.Submit(&read_a), IsOk());
  ASSERT_THAT(b.Submit(&read_b), IsOk());
  a.Fire();
  Channel* channels[] = {&a, &b};
  const CallContext context{.deadline = clock.Now() + absl::Milliseconds(20), .cancel = {}};
  EXPECT_THAT(CompleteAll(channels, context, waiter),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  EXPECT_THAT(read_a.status, IsOk());
  EXPECT_THAT(read_b.status, StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(WaiterTest, CancelFromAnotherThreadWakesTheWait) {
  ASSERT_THAT(a.Submit(&read_a), IsOk());
  CancelSource source;
  std::thread canceller([&source] { source.Cancel(); });
  Channel* channels[] = {&a};
  EXPECT_THAT(
      CompleteAll(channels, {.deadline = absl::InfiniteFuture(), .cancel = source.token()}, waiter),
      Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_TRUE(read_a.done);
  canceller.join();
}

// Who spins looks at the clock more often.
class CountingClock final : public Clock {
 public:
  absl::Time Now() const override {
    ++looks_;
    return absl::UnixEpoch();
  }
  int TakeLooks() const { return std::exchange(looks_, 0); }

 private:
  mutable int looks_ = 0;
};

TEST_F(WaiterTest, SpinsForOneOpAlone) {
  CountingClock counting;
  PollWaiter spinner(counting, absl::Microseconds(50));
  const auto spins = [&](absl::Span<Channel* const> channels) {
    counting.TakeLooks();
    // The time is over: the wait does not last.
    spinner.Wait(channels, {.deadline = absl::UnixEpoch(), .cancel = {}});
    return counting.TakeLooks() > 1;
  };
  ASSERT_THAT(a.Submit(&read_a), IsOk());
  ASSERT_THAT(b.Submit(&read_b), IsOk());
  Channel* both[] = {&a, &b};
  EXPECT_FALSE(spins(both));
  EXPECT_TRUE(spins({&both[0], 1}));
}

}  // namespace
}  // namespace moonpool::transport
