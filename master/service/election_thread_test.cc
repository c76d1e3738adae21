#include "master/service/election_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "absl/synchronization/notification.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "master/etcd/testing/served_etcd.h"

namespace moonpool::master {
namespace {

using Kind = ElectionEvent::Kind;

constexpr absl::Duration kPatience = absl::Seconds(20);

class ElectionThreadTest : public ::testing::Test {
 protected:
  ~ElectionThreadTest() override {
    if (thread_ != nullptr) thread_->Stop();
  }
  void StartElection() {
    auto election = std::make_unique<Election>(ElectionOptions{.prefix = "/t", .address = "a:1"},
                                               Random(1), leadership_, metrics_, log_.logger());
    thread_ = std::make_unique<ElectionThread>(std::move(election), etcd_, clock_,
                                               [this](const ElectionEvent& event) {
                                                 absl::MutexLock lock(&mutex_);
                                                 events_.push_back(event);
                                               });
    thread_->Start();
  }
  absl::Status Raise(Term at_least) {
    auto outcome = std::make_shared<absl::Status>();
    auto is_known = std::make_shared<absl::Notification>();
    thread_->RaiseTerm(at_least, [outcome, is_known](absl::Status status) {
      *outcome = std::move(status);
      is_known->Notify();
    });
    const bool came = is_known->WaitForNotificationWithTimeout(kPatience);
    return came ? *outcome : absl::UnknownError("it was never said");
  }
  // The first event of this kind, in this term unless that is 0; none within kPatience: nullopt.
  std::optional<ElectionEvent> Await(Kind kind, Term term = {}) {
    std::optional<ElectionEvent> found;
    absl::MutexLock lock(&mutex_);
    const auto has_come = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (const ElectionEvent& event : events_) {
        if (event.kind == kind && (term == Term{} || event.term == term)) found = event;
      }
      return found.has_value();
    };
    mutex_.AwaitWithTimeout(absl::Condition(&has_come), kPatience);
    return found;
  }

  const SteadyClock clock_ = {};
  TestLogger log_;
  metrics::Registry registry_;
  ElectionMetrics metrics_{registry_};
  Leadership leadership_;
  absl::Mutex mutex_;
  std::vector<ElectionEvent> events_ ABSL_GUARDED_BY(mutex_);
  ServedEtcd etcd_{clock_};
  std::unique_ptr<ElectionThread> thread_;
};

TEST_F(ElectionThreadTest, LeadsRaisesItsTermAndResigns) {
  StartElection();
  const auto leader = Await(Kind::kLeader);
  ASSERT_TRUE(leader.has_value());
  EXPECT_EQ(leader->term, Term{1});
  EXPECT_EQ(thread_->leadership().ReignAt(clock_.Now()), leader->reign);
  EXPECT_EQ(thread_->leader(), "");
  EXPECT_EQ(thread_->Describe(), "leading in term 1");

  EXPECT_THAT(Raise(Term{9}), IsOk());
  const auto raised = Await(Kind::kLeader, Term{9});
  ASSERT_TRUE(raised.has_value());
  EXPECT_EQ(raised->reign, leader->reign);
  EXPECT_EQ(etcd_.Value("/t/term"), "9");

  thread_->Stop();
  thread_->Stop();
  EXPECT_FALSE(thread_->leadership().IsLeaderAt(clock_.Now()));
  EXPECT_TRUE(Await(Kind::kLost).has_value());
  EXPECT_EQ(etcd_.Value("/t/leader"), "");
  EXPECT_EQ(thread_->Describe(), "resigned");
}

// Whoever waits for a term hears of it in any case.
TEST_F(ElectionThreadTest, ATermThatCannotBeIsRefused) {
  const auto is_stale = Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm);
  ASSERT_THAT(etcd_.Apply(EtcdTxn{
                  .success = {EtcdPut{.key = "/t/leader",
                                      .value = "term=3 candidate=00000000000000ff address=b:2"}}}),
              IsOk());
  StartElection();
  EXPECT_THAT(Raise(Term{9}), is_stale) << "it follows";
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}), IsOk());
  ASSERT_TRUE(Await(Kind::kLeader).has_value());
  EXPECT_THAT(Raise(Term{kTermMax.value + 1}),
              Fails(absl::StatusCode::kOutOfRange, ErrorReason::kLimitReached));
  EXPECT_THAT(Raise(Term{1}), IsOk()) << "it is there already";
  thread_->Stop();
  EXPECT_THAT(Raise(Term{9}), is_stale) << "it has stopped";
}

TEST_F(ElectionThreadTest, ARaiseThatWaitsEndsWithTheReign) {
  StartElection();
  ASSERT_TRUE(Await(Kind::kLeader).has_value());
  etcd_.SetOracle([](const EtcdRequest& request) {
    return std::holds_alternative<EtcdTxn>(request) ? ServedEtcd::Fate::kRefused
                                                    : ServedEtcd::Fate::kServed;
  });
  absl::Status raise;
  thread_->RaiseTerm(Term{9}, [&](absl::Status status) { raise = std::move(status); });
  thread_->Stop();
  EXPECT_THAT(raise, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
}

TEST_F(ElectionThreadTest, NamesTheLeaderItFollowsAndTakesOver) {
  ASSERT_THAT(etcd_.Apply(EtcdTxn{
                  .success = {EtcdPut{.key = "/t/leader",
                                      .value = "term=3 candidate=00000000000000ff address=b:2"}}}),
              IsOk());
  StartElection();
  ASSERT_TRUE(Await(Kind::kFollower).has_value());
  EXPECT_EQ(thread_->leader(), "b:2");
  EXPECT_EQ(thread_->Describe(), "following b:2");
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}), IsOk());
  EXPECT_TRUE(Await(Kind::kLeader).has_value());
}

TEST_F(ElectionThreadTest, StopsWhileEtcdRefusesEverything) {
  etcd_.SetOracle([](const EtcdRequest&) { return ServedEtcd::Fate::kRefused; });
  StartElection();
  thread_->Stop();
  EXPECT_FALSE(thread_->leadership().IsLeaderAt(clock_.Now()));
}

TEST_F(ElectionThreadTest, SaysWhyNobodyLeads) {
  // The thread publishes what it knows before it asks again.
  auto refusals = std::make_shared<std::atomic<int>>(0);
  auto is_refused_twice = std::make_shared<absl::Notification>();
  etcd_.SetOracle([refusals, is_refused_twice](const EtcdRequest&) {
    if (++*refusals == 2) is_refused_twice->Notify();
    return ServedEtcd::Fate::kRefused;
  });
  StartElection();
  ASSERT_TRUE(is_refused_twice->WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(thread_->Describe(), "looking: UNAVAILABLE: no answer");
}

// What was under way when the thread ended still comes back.
TEST_F(ElectionThreadTest, AnAnswerMayComeAfterItsEnd) {
  StartElection();
  ASSERT_TRUE(Await(Kind::kLeader).has_value());
  thread_->Stop();
  thread_.reset();
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdPut{.key = "/t/leader", .value = "x"}}}), IsOk());
}

}  // namespace
}  // namespace moonpool::master
