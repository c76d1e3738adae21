#include "master/handlers/waiters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/error.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WaitersTest : public ::testing::Test {
 protected:
  class Scripted final : public Waiter {
   public:
    Scripted(WaitersTest& test, std::string name, size_t keys)
        : test_(test), name_(std::move(name)), keys_(keys) {}
    size_t key_count() const override { return keys_; }
    Progress Retry(absl::Time) override {
      test_.events.push_back(name_);
      if (test_.room == 0) return test_.stuck;
      --test_.room;
      return Progress::kDone;
    }
    void Expire(absl::Time) override { test_.events.push_back(name_ + " expired"); }
    void Fail(const absl::Status&, absl::Time) override {
      test_.events.push_back(name_ + " failed");
    }

   private:
    WaitersTest& test_;
    const std::string name_;
    const size_t keys_;
  };

  CallId Add(std::string name, Waiter::Progress progress, size_t keys = 1,
             absl::Duration timeout = absl::Seconds(10)) {
    return waiters.Add(std::make_unique<Scripted>(*this, std::move(name), keys), progress,
                       now + timeout);
  }
  std::vector<std::string> Pump(Waiters::Occasion occasion) {
    waiters.Pump(occasion, now);
    return std::exchange(events, {});
  }
  std::vector<std::string> Tick() { return Pump(Waiters::Occasion::kTick); }

  absl::Time now = absl::FromUnixSeconds(1);
  HandlersOptions options = {
      .space_turn = absl::Seconds(1), .retried_keys_per_call = 4, .retried_keys_per_tick = 8};
  HandlerCounts counts;
  Waiters waiters{options, counts};
  std::vector<std::string> events;
  int room = 0;
  Waiter::Progress stuck = Waiter::Progress::kSpace;
};

TEST_F(WaitersTest, NobodyIsTriedUntilSomethingChanged) {
  Add("a", Waiter::Progress::kSpace);
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_FALSE(waiters.pump_pending());
  waiters.MarkChanged();
  EXPECT_TRUE(waiters.pump_pending());
  EXPECT_THAT(Tick(), ElementsAre("a"));
  EXPECT_FALSE(waiters.pump_pending());
}

TEST_F(WaitersTest, TheFirstThatDoesNotFitHoldsBackTheRestForItsTurn) {
  Add("a", Waiter::Progress::kSpace);
  Add("b", Waiter::Progress::kSpace);
  Add("c", Waiter::Progress::kSpace);
  waiters.MarkChanged();
  EXPECT_THAT(Tick(), ElementsAre("a"));
  now += absl::Seconds(1);
  waiters.MarkChanged();
  EXPECT_THAT(Tick(), ElementsAre("a", "b"));  // now b has its turn
  room = 1;
  waiters.MarkChanged();
  EXPECT_THAT(Tick(), ElementsAre("a", "b"));  // a took it, b does not fit
  EXPECT_EQ(waiters.size(), 2u);
}

TEST_F(WaitersTest, WorkIsBoundedAndGoesOnWhereItStopped) {
  stuck = Waiter::Progress::kOther;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    Add(name, Waiter::Progress::kOther, /*keys=*/2);
  }
  waiters.MarkChanged();
  EXPECT_THAT(Pump(Waiters::Occasion::kCall), ElementsAre("a", "b"));
  EXPECT_TRUE(waiters.pump_pending());
  waiters.MarkChanged();
  EXPECT_THAT(Tick(), ElementsAre("c", "d", "e", "f"));
  // What is before the place where it went on is seen once more: the change may concern it.
  EXPECT_THAT(Tick(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(Tick(), ElementsAre("e", "f"));
  EXPECT_FALSE(waiters.pump_pending());
}

TEST_F(WaitersTest, APassInSeveralStepsComesToAnEnd) {
  now += options.space_turn;
  for (const Waiter::Progress progress : {Waiter::Progress::kSpace, Waiter::Progress::kOther}) {
    stuck = progress;
    for (const char* name : {"a", "b", "c"}) Add(name, progress, /*keys=*/5);
    waiters.MarkChanged();
    for (int ticks = 0; waiters.pump_pending(); ++ticks) {
      ASSERT_LT(ticks, 10) << "it would be tried for ever, though nothing changes";
      Tick();
      now += options.space_turn;
    }
    waiters.FailAll(absl::UnavailableError("next"), now);
  }
}

TEST_F(WaitersTest, ABatchLargerThanTheBoundIsTriedByTicksOnly) {
  Add("large", Waiter::Progress::kSpace, /*keys=*/1000);
  waiters.MarkChanged();
  EXPECT_THAT(Pump(Waiters::Occasion::kCall), IsEmpty());
  EXPECT_TRUE(waiters.pump_pending());
  EXPECT_THAT(Tick(), ElementsAre("large"));
}

TEST_F(WaitersTest, DeadlinesComeInTheirOrder) {
  Add("late", Waiter::Progress::kSpace, 1, absl::Seconds(3));
  Add("soon", Waiter::Progress::kOther, 1, absl::Seconds(1));
  EXPECT_EQ(waiters.earliest_deadline(), now + absl::Seconds(1));
  now += absl::Seconds(1);
  waiters.ExpireDue(now);
  EXPECT_THAT(std::exchange(events, {}), ElementsAre("soon expired"));
  now += absl::Seconds(2);
  waiters.ExpireDue(now);
  EXPECT_THAT(events, ElementsAre("late expired"));
  EXPECT_EQ(waiters.earliest_deadline(), absl::InfiniteFuture());
}

TEST_F(WaitersTest, WhenTheFirstGivesUpTheNextIsTriedAtOnce) {
  const CallId first = Add("a", Waiter::Progress::kSpace);
  Add("b", Waiter::Progress::kSpace);
  waiters.MarkChanged();
  EXPECT_THAT(Tick(), ElementsAre("a"));
  waiters.Cancel(first, absl::CancelledError(), now);
  EXPECT_TRUE(waiters.pump_pending());
  room = 1;
  EXPECT_THAT(Tick(), ElementsAre("a failed", "b"));
  EXPECT_EQ(waiters.size(), 0u);
  EXPECT_EQ(counts.waits_cancelled, 1u);
}

TEST_F(WaitersTest, ACallThatNeedsNoSpaceAnyMoreLeavesThatQueue) {
  Add("a", Waiter::Progress::kSpace);
  stuck = Waiter::Progress::kOther;
  waiters.MarkChanged();
  EXPECT_THAT(Tick(), ElementsAre("a", "a"));  // tried in both queues of this pass
  EXPECT_FALSE(waiters.anyone_waits_for_space());
  EXPECT_EQ(waiters.size(), 1u);
}

}  // namespace
}  // namespace moonpool::master
