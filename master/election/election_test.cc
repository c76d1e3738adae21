// One master among others that behave; where several matter, see the model test.
#include "master/election/election.h"

#include "master/election/testing/election_fixture.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Kind = ElectionEvent::Kind;

TEST_F(ElectionTest, TheOnlyMasterLeadsInTermOne) {
  BecomeLeader();
  EXPECT_TRUE(Leads());
  EXPECT_THAT(Kinds(), ::testing::ElementsAre(Kind::kFollower, Kind::kLeader));
  EXPECT_EQ(events_[0].leader, "");
  EXPECT_EQ(events_[1].term, Term{1});
  EXPECT_EQ(etcd_.Value("/t/term"), "1");
  EXPECT_THAT(etcd_.Value("/t/leader"), HasSubstr("address=a:1"));
  EXPECT_EQ(metrics_.term.value(), 1);
}

TEST_F(ElectionTest, TheTermsOfEarlierMastersAreCountedOn) {
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdPut{.key = "/t/term", .value = "41"}}}, now_),
              IsOk());
  BecomeLeader();
  EXPECT_EQ(election_.term(), Term{42});
  EXPECT_EQ(etcd_.Value("/t/term"), "42");
}

TEST_F(ElectionTest, AStandbyNamesTheLeaderAndTakesOverWhenItsKeyIsGone) {
  PutLeader("term=3 candidate=00000000000000ff address=b:2");
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_EQ(election_.state(), ElectionState::kFollowing);
  ASSERT_THAT(Kinds(), ::testing::ElementsAre(Kind::kFollower));
  EXPECT_EQ(events_[0].leader, "b:2");
  EXPECT_FALSE(Leads());

  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}, now_), IsOk());
  ASSERT_THAT(Serve<EtcdAwaitChange>(), IsOk());
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_TRUE(Leads());
}

// R10: the deadline counts from when the renewal was sent, less a margin.
TEST_F(ElectionTest, LeadsUntilItsLeaseIsNearlyOverSinceTheLastRenewalWasSent) {
  BecomeLeader();
  const absl::Time sent = now_;
  const auto renewal = TakeCall<EtcdKeepAlive>();
  ASSERT_TRUE(renewal.has_value());
  Advance(absl::Milliseconds(700));
  Take(election_.OnAnswer(renewal->id, etcd_.Apply(renewal->request, now_), now_));
  EXPECT_LT(election_.leadership().deadline(), sent + kLease);
  EXPECT_GE(election_.leadership().deadline(), sent + kLease * 0.85);
  EXPECT_TRUE(election_.leadership().IsLeaderAt(sent + kLease * 0.85));
  EXPECT_FALSE(election_.leadership().IsLeaderAt(sent + kLease));
}

TEST_F(ElectionTest, TheFirstDeadlineCountsFromWhenTheLeaseWasAskedFor) {
  Tick();
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  const absl::Time asked = now_;
  const auto grant = TakeCall<EtcdGrantLease>();
  ASSERT_TRUE(grant.has_value());
  const auto granted = etcd_.Apply(grant->request, now_);
  Advance(absl::Milliseconds(900));
  Take(election_.OnAnswer(grant->id, granted, now_));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_TRUE(Leads());
  EXPECT_LT(election_.leadership().deadline(), asked + kLease);
}

TEST_F(ElectionTest, AStoppedProcessFindsItselfExpiredBeforeAnybodyTellsIt) {
  BecomeLeader();
  Advance(absl::Hours(1));  // SIGSTOP, SIGCONT
  EXPECT_FALSE(Leads());
  EXPECT_EQ(election_.leadership().ReignAt(now_), Reign{});
  // And the renewal that it had sent before finds no lease.
  EXPECT_THAT(Serve<EtcdKeepAlive>(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Kinds().back(), Kind::kLost);
  EXPECT_EQ(metrics_.losses.value(), 1u);
}

TEST_F(ElectionTest, WhoDeletesTheKeyByHandEndsTheReign) {
  BecomeLeader();
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}, now_), IsOk());
  ASSERT_THAT(Serve<EtcdAwaitChange>(), IsOk());
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_FALSE(Leads());
  EXPECT_THAT(Kinds(), Contains(Kind::kLost));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("the leader key was deleted from etcd")));
}

TEST_F(ElectionTest, TheTermIsRaisedWithinTheReign) {
  BecomeLeader();
  const Reign reign = election_.leadership().ReignAt(now_);
  Take(election_.RaiseTerm(Term{70}, now_));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());  // looks
  EXPECT_EQ(election_.term(), Term{1});
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());  // raises
  EXPECT_EQ(election_.term(), Term{70});
  EXPECT_EQ(etcd_.Value("/t/term"), "70");
  EXPECT_THAT(etcd_.Value("/t/leader"), HasSubstr("term=70 "));
  EXPECT_EQ(Kinds().back(), Kind::kLeader);
  EXPECT_EQ(events_.back().reign, reign);
  EXPECT_EQ(election_.leadership().ReignAt(now_), reign);
  // Its own change of the key is no reason to step down.
  ASSERT_THAT(Serve<EtcdAwaitChange>(), IsOk());
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_TRUE(Leads());
  Take(election_.RaiseTerm(Term{70}, now_));
  EXPECT_FALSE(TakeCall<EtcdTxn>().has_value()) << "it is that high";
}

TEST_F(ElectionTest, WhoHasLostTheKeyRaisesNothing) {
  BecomeLeader();
  Take(election_.RaiseTerm(Term{70}, now_));
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  PutLeader("term=2 candidate=00000000000000ff address=b:2");
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}, now_), IsOk());
  PutLeader("term=2 candidate=00000000000000ff address=b:2");
  ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
  EXPECT_EQ(etcd_.Value("/t/term"), "1");
  EXPECT_FALSE(Leads());
  EXPECT_EQ(election_.leader(), "b:2");
}

TEST_F(ElectionTest, NoTermBeyondAllTermsIsFollowedOrClaimed) {
  BecomeLeader();
  Take(election_.RaiseTerm(Term{0xffffffff}, now_));
  EXPECT_FALSE(TakeCall<EtcdTxn>().has_value());
  EXPECT_EQ(election_.term(), Term{1});
}

TEST_F(ElectionTest, WhoResignsLeadsNoMoreAtOnceAndGivesTheLeaseBack) {
  BecomeLeader();
  Take(election_.Resign(now_));
  EXPECT_FALSE(Leads());
  EXPECT_EQ(Kinds().back(), Kind::kLost);
  EXPECT_FALSE(election_.has_resigned());
  ASSERT_THAT(Serve<EtcdRevokeLease>(), IsOk());
  EXPECT_TRUE(election_.has_resigned());
  EXPECT_EQ(etcd_.Value("/t/leader"), "") << "the next one can lead at once";
  Advance(absl::Minutes(1));
  Tick();
  EXPECT_EQ(wake_at_, absl::InfiniteFuture());
}
}  // namespace
}  // namespace moonpool::master
