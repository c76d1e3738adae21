// Answers that are lost, late, wrong, or no.
#include "master/election/election.h"

#include "master/election/testing/election_fixture.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = ElectionEvent::Kind;

TEST_F(ElectionTest, AStandbyLooksAgainWhenItsWatchIsSilentOrBroken) {
  PutLeader("term=3 candidate=00000000000000ff address=b:2");
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  Refuse<EtcdAwaitChange>(absl::DeadlineExceededError("nothing"));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  // At once the next watch; after one that broke, not at once.
  Refuse<EtcdAwaitChange>(absl::UnavailableError("gone"));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_FALSE(TakeCall<EtcdAwaitChange>().has_value());
  EXPECT_GT(wake_at_, now_);
  now_ = wake_at_;
  Tick();
  EXPECT_TRUE(TakeCall<EtcdAwaitChange>().has_value());
  EXPECT_THAT(Kinds(), ::testing::ElementsAre(Kind::kFollower)) << "the leader is still the same";
}

TEST_F(ElectionTest, WhileEtcdIsAwayTheLeaderFallsSilentAndSaysSoOnce) {
  BecomeLeader();
  const Reign reign = election_.leadership().ReignAt(now_);
  const absl::Time down = now_;
  // Not Advance: while etcd is down no lease ends.
  while (now_ < down + absl::Seconds(30)) {
    for (auto& [call, sent] : std::exchange(calls_, {})) {
      Take(election_.OnAnswer(call.id, absl::UnavailableError("refused"), now_));
    }
    now_ = std::max(wake_at_, now_ + absl::Milliseconds(1));
    Tick();
    EXPECT_EQ(Leads(), now_ < election_.leadership().deadline());
  }
  EXPECT_FALSE(Leads());
  const auto lines = log_.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.starts_with("error"); }),
            2)
      << ::testing::PrintToString(lines);
  EXPECT_THAT(lines, Contains(HasSubstr("falls silent at the end of its lease")));
  EXPECT_THAT(lines, Contains(HasSubstr("answers nobody until etcd has renewed its lease")));
  EXPECT_THAT(lines, Contains(HasSubstr("bring etcd back")));
  EXPECT_EQ(metrics_.silences.value(), 1u);
  // Nobody has led meanwhile: the same reign goes on.
  etcd_.RenewLeases(now_);
  EXPECT_THAT(Kinds(), Not(Contains(Kind::kLost)));
  now_ += absl::Seconds(1);
  Tick();
  ASSERT_THAT(Serve<EtcdKeepAlive>(), IsOk());
  EXPECT_EQ(election_.leadership().ReignAt(now_), reign);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("leads on")));
}

TEST_F(ElectionTest, AClaimWhoseAnswerIsLostIsRecognised) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  const auto claim = TakeCall<EtcdTxn>();
  ASSERT_TRUE(claim.has_value());
  ASSERT_THAT(etcd_.Apply(claim->request, now_), IsOk());
  Take(election_.OnAnswer(claim->id, absl::DeadlineExceededError("lost"), now_));
  EXPECT_FALSE(Leads());
  now_ = wake_at_;
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_TRUE(Leads());
  EXPECT_EQ(election_.term(), Term{1});
}

// The member that was asked first carried it out, the second found it done.
TEST_F(ElectionTest, AClaimThatWasCarriedOutTwiceIsOneReign) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  const auto claim = TakeCall<EtcdTxn>();
  ASSERT_TRUE(claim.has_value());
  ASSERT_THAT(etcd_.Apply(claim->request, now_), IsOk());
  Take(election_.OnAnswer(claim->id, etcd_.Apply(claim->request, now_), now_));
  EXPECT_TRUE(Leads());
  EXPECT_EQ(etcd_.Value("/t/term"), "1");
}

// A key of ours under a lease that nobody renews would end in the middle of our reign.
TEST_F(ElectionTest, AClaimUnderALeaseThatWasGivenUpLeadsNobody) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  const auto straggler = TakeCall<EtcdTxn>();
  ASSERT_TRUE(straggler.has_value());
  Advance(absl::Milliseconds(1200));
  Take(election_.OnAnswer(straggler->id, absl::DeadlineExceededError("no answer"), now_));
  now_ = wake_at_;
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());  // the first one is too old
  ASSERT_THAT(etcd_.Apply(straggler->request, now_), IsOk());
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_FALSE(Leads());
  EXPECT_EQ(election_.state(), ElectionState::kFollowing);
  EXPECT_EQ(election_.leader(), "");
}

TEST_F(ElectionTest, AClaimWithoutALeaseAsksForAnother) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  Refuse<EtcdTxn>(absl::NotFoundError("requested lease not found"));
  now_ = wake_at_;
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_TRUE(TakeCall<EtcdGrantLease>().has_value());
}

TEST_F(ElectionTest, WhoMayReadAndNotWriteSaysSoOnceAndAsksSeldom) {
  Tick();
  int claims = 0;
  for (const absl::Time end = now_ + absl::Minutes(1); now_ < end;) {
    ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
    if (const auto grant = TakeCall<EtcdGrantLease>()) {  // the last one is fresh, or too old
      Take(election_.OnAnswer(grant->id, etcd_.Apply(grant->request, now_), now_));
    }
    Refuse<EtcdTxn>(absl::PermissionDeniedError("etcdserver: permission denied"));
    ++claims;
    ASSERT_GT(wake_at_, now_);
    now_ = wake_at_;
    Tick();
  }
  EXPECT_LT(claims, 130);
  const auto lines = log_.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.find("denied") != line.npos; }),
            1);
}

TEST_F(ElectionTest, AnswersOfAnEarlierReignAreIgnored) {
  BecomeLeader();
  const auto old_renewal = TakeCall<EtcdKeepAlive>();
  ASSERT_TRUE(old_renewal.has_value());
  const auto granted = etcd_.Apply(old_renewal->request, now_);
  PutLeader("term=9 candidate=00000000000000ff address=b:2");
  ASSERT_THAT(Serve<EtcdAwaitChange>(), IsOk());
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_EQ(election_.leader(), "b:2");
  Take(election_.OnAnswer(old_renewal->id, granted, now_));
  Take(election_.OnAnswer(old_renewal->id, granted, now_));
  Take(election_.OnAnswer(0, granted, now_));
  EXPECT_FALSE(Leads());
}

TEST_F(ElectionTest, ARaiseWhoseAnswerIsLostIsSeen) {
  BecomeLeader();
  Take(election_.RaiseTerm(Term{70}, now_));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  const auto raise = TakeCall<EtcdTxn>();
  ASSERT_TRUE(raise.has_value());
  ASSERT_THAT(etcd_.Apply(raise->request, now_), IsOk());
  Take(election_.OnAnswer(raise->id, absl::UnavailableError("lost"), now_));
  EXPECT_EQ(election_.term(), Term{1});
  now_ = std::max(wake_at_, now_ + absl::Milliseconds(200));
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_EQ(election_.term(), Term{70});
}

TEST_F(ElectionTest, ATermThatIsUsedUpIsAnErrorWithAWayOut) {
  const std::string last = FormatTerm(kTermMax);
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdPut{.key = "/t/term", .value = last}}}, now_),
              IsOk());
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  EXPECT_FALSE(TakeCall<EtcdTxn>().has_value());
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("no term is left")));
  EXPECT_GT(wake_at_, now_);
}

TEST_F(ElectionTest, AResignationThatEtcdDoesNotHearOfEndsAllTheSame) {
  BecomeLeader();
  Take(election_.Resign(now_));
  Refuse<EtcdRevokeLease>(absl::UnavailableError("gone"));
  EXPECT_TRUE(election_.has_resigned());
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("the lease could not be given back")));
}

TEST_F(ElectionTest, AClaimThatIsUnderWayDiesWithTheResignation) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  const auto claim = TakeCall<EtcdTxn>();
  ASSERT_TRUE(claim.has_value());
  Take(election_.Resign(now_));
  ASSERT_THAT(Serve<EtcdRevokeLease>(), IsOk());
  EXPECT_THAT(etcd_.Apply(claim->request, now_), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ElectionTest, AnEtcdThatGrantsNoShortLeaseIsReportedAndNotReliedOn) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  const auto grant = TakeCall<EtcdGrantLease>();
  ASSERT_TRUE(grant.has_value());
  ASSERT_THAT(etcd_.Apply(grant->request, now_), IsOk());
  Take(election_.OnAnswer(grant->id, EtcdLease{.lease = 1, .ttl = absl::Seconds(15)}, now_));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_TRUE(Leads());
  EXPECT_LT(election_.leadership().deadline(), now_ + kLease);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("granted=15s")));
}

// Less than was asked for is not in etcd's contract; to believe in more would be two leaders.
TEST_F(ElectionTest, AShorterLeaseIsTakenAtItsWord) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  const auto grant = TakeCall<EtcdGrantLease>();
  ASSERT_TRUE(grant.has_value());
  ASSERT_THAT(etcd_.Apply(grant->request, now_), IsOk());
  Take(election_.OnAnswer(grant->id, EtcdLease{.lease = 1, .ttl = absl::Seconds(1)}, now_));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_LT(election_.leadership().deadline(), now_ + absl::Seconds(1));
}

TEST_F(ElectionTest, WhatIsNoRecordOfAMasterIsReportedAndWaitedOut) {
  PutLeader("hello");
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_EQ(election_.state(), ElectionState::kFollowing);
  EXPECT_EQ(election_.leader(), "");
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("no leader record of a master")));
  const size_t lines = log_.lines().size();
  for (int look = 0; look < 20; ++look) {
    Refuse<EtcdAwaitChange>(absl::DeadlineExceededError("nothing"));
    now_ = std::max(now_, wake_at_);
    Tick();
    ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
    now_ = std::max(now_, wake_at_);
    Tick();
  }
  EXPECT_LE(log_.lines().size(), lines + 1) << ::testing::PrintToString(log_.lines());
}

TEST_F(ElectionTest, AnswersOfAnotherKindAreErrors) {
  Tick();
  const auto look = TakeCall<EtcdTxn>();
  ASSERT_TRUE(look.has_value());
  Take(election_.OnAnswer(look->id, EtcdDone{}, now_));
  EXPECT_EQ(election_.state(), ElectionState::kLooking);
  EXPECT_THAT(election_.last_failure(), StatusIs(absl::StatusCode::kInternal));
  now_ = wake_at_;
  Tick();
  const auto again = TakeCall<EtcdTxn>();
  ASSERT_TRUE(again.has_value());
  Take(election_.OnAnswer(again->id, EtcdTxnResult{.succeeded = true, .revision = 5}, now_));
  EXPECT_THAT(election_.last_failure(), StatusIs(absl::StatusCode::kInternal));
  now_ = wake_at_;
  BecomeLeader();
  const auto renewal = TakeCall<EtcdKeepAlive>();
  ASSERT_TRUE(renewal.has_value());
  const absl::Time deadline = election_.leadership().deadline();
  now_ += absl::Milliseconds(10);
  Take(election_.OnAnswer(renewal->id, EtcdDone{}, now_));
  EXPECT_EQ(election_.leadership().deadline(), deadline);
}
}  // namespace
}  // namespace moonpool::master
