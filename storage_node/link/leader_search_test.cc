#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "storage_node/link/master_link.h"
#include "storage_node/link/testing/master_link_fixture.h"

namespace moonpool::storage_node {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// --- Without a session.

class FollowTest : public MasterLinkTest {
 protected:
  // The next master that is tried, at once or after a pause.
  std::string NextMaster() {
    LinkOutput out = Tick();
    while (!out.connect.has_value()) {
      now_ = out.wake_at;
      out = Tick();
    }
    link_.OnConnected(now_);
    return *out.connect;
  }
};

TEST_F(FollowTest, ANodeGoesWhereItIsSentAtOnce) {
  EXPECT_EQ(NextMaster(), "a:1");
  const LinkOutput out = Receive(NotLeader("c:3"));
  EXPECT_TRUE(out.disconnect);
  EXPECT_EQ(out.wake_at, now_);
  EXPECT_EQ(NextMaster(), "c:3") << "it is on no list";
  Receive(Registered(5));
  Upload();
  EXPECT_EQ(link_.state(), LinkState::kLive);
  // Its reign ends.
  Receive(NotLeader("b:2"));
  const absl::Time lost = now_;
  EXPECT_EQ(NextMaster(), "b:2");
  EXPECT_EQ(now_, lost);
}

TEST_F(FollowTest, WhileNobodyLeadsTheNodeComesBackSoon) {
  options_.backoff_max = absl::Seconds(5);
  absl::Time before = now_;
  for (int round = 0; round < 40; ++round) {
    EXPECT_EQ(NextMaster(), "a:1");
    EXPECT_LE(now_ - before, round <= LeaderChoice::kQuickRounds ? options_.election_backoff_max
                                                                 : absl::Seconds(1));
    before = now_;
    Receive(NotLeader(""));
    EXPECT_EQ(NextMaster(), "b:2");
    EXPECT_EQ(now_, before) << "no pause between the two";
    link_.OnDisconnected(absl::UnavailableError("refused"), now_);
  }
  EXPECT_THAT(log_.lines(), SizeIs(2)) << "one line for each cause";
}

TEST_F(FollowTest, ThatTheStreamEndsWithTheReasonIsTheSame) {
  EXPECT_EQ(NextMaster(), "a:1");
  link_.OnDisconnected(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                                 "over", {.leader = "d:4"}),
                       now_);
  EXPECT_EQ(NextMaster(), "d:4");
}

TEST_F(FollowTest, AMasterThatSaysNothingHoldsTheNodeUpOnceAndThenBriefly) {
  EXPECT_EQ(NextMaster(), "a:1");
  const absl::Time begun = now_;
  LinkOutput out = Tick();
  while (!out.disconnect) {
    now_ = out.wake_at;
    out = Tick();
  }
  EXPECT_LE(now_ - begun, absl::Seconds(1));
  EXPECT_EQ(NextMaster(), "b:2");
  Receive(NotLeader("a:1"));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(NextMaster(), "b:2");
    Receive(NotLeader("a:1"));
    EXPECT_EQ(NextMaster(), "a:1");
    EXPECT_LE(Tick().wake_at - now_, absl::Milliseconds(200));
    now_ = Tick().wake_at;
    EXPECT_TRUE(Tick().disconnect);
  }
}

// --- Beside a session.

class SearchTest : public MasterLinkTest {
 protected:
  static constexpr absl::Duration kSilence = absl::Milliseconds(150);

  void SetUp() override {
    GoLive(/*term=*/3);
    AckAll();
    TickAfter(kHeartbeat);
    AckAll();
  }
  // Until it asks; "" when the session is dropped before.
  std::string Ask() {
    while (true) {
      const LinkOutput out = Tick();
      if (out.disconnect) return "";
      if (out.ask.has_value()) {
        EXPECT_EQ(out.ask->registration.register_().name(), "n1");
        return out.ask->address;
      }
      now_ = out.wake_at;
    }
  }
  LinkOutput Answer(const v1::MasterMessage& message) { return link_.OnAskMessage(message, now_); }
};

TEST_F(SearchTest, AMasterThatAnswersIsNotDoubted) {
  for (int beat = 0; beat < 20; ++beat) {
    EXPECT_FALSE(TickAfter(kHeartbeat).ask.has_value());
    AckAll();
  }
}

TEST_F(SearchTest, TheNodeMovesToTheMasterThatTakesIt) {
  const absl::Time heard = now_;
  EXPECT_EQ(Ask(), "b:2");
  EXPECT_EQ(now_, heard + kSilence);
  EXPECT_EQ(link_.state(), LinkState::kLive) << "its session goes on";
  const LinkOutput out = Answer(Registered(4));
  EXPECT_TRUE(out.adopt);
  EXPECT_FALSE(out.disconnect);
  EXPECT_FALSE(out.end_ask);
  EXPECT_EQ(link_.term(), Term{4});
  EXPECT_EQ(pool_.index().newest_term(), Term{4});
  const auto sent = Upload();
  EXPECT_EQ(sent.front().heartbeat().sequence(), 1u);
  EXPECT_TRUE(sent.back().inventory().complete());
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("another master leads")));
  // And from there it goes on to the next.
  TickAfter(kHeartbeat);
  AckAll();
  Receive(NotLeader("a:1"));
  EXPECT_EQ(Tick().connect, "a:1");
}

TEST_F(SearchTest, AMasterThatSaysThatItIsSilentIsDoubtedAtOnceUntilItAnswers) {
  v1::MasterMessage silence;
  silence.mutable_silence();
  const absl::Time told = now_;
  const LinkOutput out = Receive(silence);
  EXPECT_EQ(out.wake_at, told);
  EXPECT_EQ(Ask(), "b:2");
  EXPECT_EQ(now_, told);
  Answer(NotLeader(""));
  EXPECT_EQ(Ask(), "b:2") << "nobody leads yet";
  EXPECT_LE(now_, told + absl::Milliseconds(200));
  TickAfter(kHeartbeat);
  AckAll();
  EXPECT_TRUE(Tick().end_ask);
  EXPECT_EQ(link_.state(), LinkState::kLive);
  EXPECT_FALSE(TickAfter(absl::Milliseconds(1)).ask.has_value());
}

TEST_F(SearchTest, TheOthersAreAskedAgainAndAgainAndTheSilentOneIsNot) {
  v1::MasterMessage registered = Registered(3);
  link_.OnDisconnected(absl::OkStatus(), now_);
  Connect();
  registered.mutable_registered()->set_session_timeout_ms(5000);
  Receive(registered);
  Upload();
  const absl::Time heard = now_;
  const std::string first = Ask();
  std::vector<std::string> asked = {first};
  while (now_ < heard + absl::Seconds(2)) {
    EXPECT_TRUE(Answer(NotLeader(first == "a:1" ? "b:2" : "a:1")).end_ask);
    asked.push_back(Ask());
  }
  EXPECT_THAT(asked, ::testing::Each(first)) << "the other one has the session";
  EXPECT_GE(asked.size(), 9u);
  EXPECT_LE(asked.size(), 40u);
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

// All nodes of a pool search at once, and each question is a new connection.
TEST_F(SearchTest, ALongSilenceIsNoStormOnTheOthers) {
  v1::MasterMessage registered = Registered(3);
  link_.OnDisconnected(absl::OkStatus(), now_);
  Connect();
  registered.mutable_registered()->set_session_timeout_ms(60'000);
  Receive(registered);
  Upload();
  const absl::Time heard = now_;
  std::vector<absl::Time> asked;
  while (now_ < heard + absl::Seconds(30)) {
    ASSERT_NE(Ask(), "");
    asked.push_back(now_);
    Answer(NotLeader(""));
  }
  const auto within = [&](absl::Duration from, absl::Duration to) {
    return std::count_if(asked.begin(), asked.end(),
                         [&](absl::Time at) { return heard + from <= at && at < heard + to; });
  };
  EXPECT_GE(within(absl::ZeroDuration(), absl::Seconds(2)), 9) << "while another leads soon";
  EXPECT_LE(within(absl::Seconds(10), absl::Seconds(30)), 40);
  EXPECT_GE(within(absl::Seconds(10), absl::Seconds(30)), 19);
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(SearchTest, WhoIsNamedIsAskedNext) {
  EXPECT_EQ(Ask(), "b:2");
  Answer(NotLeader("c:3"));
  EXPECT_EQ(Ask(), "c:3");
  EXPECT_TRUE(Answer(Registered(9)).adopt);
  EXPECT_EQ(link_.term(), Term{9});
}

TEST_F(SearchTest, ItEndsWhenTheMasterIsHeardAgain) {
  EXPECT_EQ(Ask(), "b:2");
  AckAll();
  const LinkOutput out = Tick();
  EXPECT_TRUE(out.end_ask);
  EXPECT_FALSE(out.disconnect);
  EXPECT_FALSE(Answer(Registered(4)).adopt) << "a leftover";
  EXPECT_EQ(link_.term(), Term{3});
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(SearchTest, ItEndsWithTheSession) {
  EXPECT_EQ(Ask(), "b:2");
  LinkOutput out;
  while (!out.disconnect) {
    out = Tick();
    if (!out.disconnect) now_ = out.wake_at;
  }
  EXPECT_TRUE(out.end_ask);
  EXPECT_FALSE(Answer(Registered(4)).adopt);
  EXPECT_EQ(link_.state(), LinkState::kWaiting);
  EXPECT_EQ(Ask(), "") << "what follows is a connection, and no question";
}

// Nobody would end it, and a master that leads would hold a node for registered that is elsewhere.
TEST_F(SearchTest, ASessionThatEndsInTheSameTickLeavesNoQuestionBehind) {
  v1::MasterMessage older = Registered(3);
  older.mutable_registered()->mutable_version()->set_minor(2);
  link_.OnDisconnected(absl::OkStatus(), now_);
  Connect();
  Receive(older);
  Upload();
  TickAfter(kHeartbeat);
  AckAll();  // which makes it the leader, and all others those to be asked next
  const Extent extent = At(128, 128);
  ASSERT_THAT(pool_.Put(Gen(3, 1), extent, "k"), IsOk());
  ASSERT_TRUE(pool_.index().DropIfDamaged(*pool_.index().FindRecord(Gen(3, 1), extent), Gen(3, 1),
                                          /*is_payload_whole=*/false));
  // Its loss cannot be told in this session, which is silent by now as well.
  const LinkOutput out = TickAfter(kSilence);
  EXPECT_TRUE(out.disconnect);
  EXPECT_FALSE(out.ask.has_value());
}

TEST_F(SearchTest, AnOlderLeaderIsNotMovedTo) {
  EXPECT_EQ(Ask(), "b:2");
  const LinkOutput out = Answer(Registered(2));
  EXPECT_FALSE(out.adopt);
  EXPECT_TRUE(out.end_ask);
  EXPECT_EQ(link_.term(), Term{3});
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(SearchTest, WhoDoesNotAnswerOrIsAwayIsGivenUp) {
  EXPECT_EQ(Ask(), "b:2");
  EXPECT_FALSE(link_.OnAskEnded(now_).disconnect);
  const absl::Time ended = now_;
  EXPECT_EQ(Ask(), "b:2");
  EXPECT_GT(now_, ended);
  EXPECT_LE(now_ - ended, options_.backoff_min);
}

// Their numbers are the numbers of other commands there.
TEST_F(SearchTest, TheNextLeaderGetsNoResultsOfCopiesThatTheLastOneOrdered) {
  CopyOrder order;
  order.claim = Gen(5, 1);  // of a term that the next leader does not end
  for (const uint64_t command : {1, 2}) {
    order.source_extent.offset = 64 * command;
    ASSERT_THAT(copies_.Add(command, order, absl::InfiniteFuture()), IsOk());
  }
  copies_.Finish(copies_.Take()->id, absl::OkStatus());
  const std::optional<CopyJob> running = copies_.Take();
  ASSERT_EQ(Ask(), "b:2");
  ASSERT_TRUE(Answer(Registered(5)).adopt);
  EXPECT_TRUE(running->context.cancel.cancelled());
  copies_.Finish(running->id, absl::OkStatus());
  for (const v1::NodeMessage& message : Upload()) EXPECT_FALSE(message.has_command_result());
  EXPECT_FALSE(copies_.has_results());
}

TEST(LoneMaster, IsWaitedFor) {
  TestLogger log;
  metrics::Registry registry;
  LinkMetrics metrics(registry);
  TestPool pool(1, {});
  NodeIdentity identity;
  identity.name = "n1";
  CopyQueue copies;
  MasterLink link(identity, {.masters = {"a:1"}}, {pool.index(), copies, metrics, log.logger()},
                  Random(1));
  absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  EXPECT_TRUE(link.Tick(now, true).connect.has_value());
  link.OnConnected(now);
  link.OnMessage(Registered(1), now);
  LinkOutput out;
  while (!out.disconnect) {
    out = link.Tick(now, true);
    EXPECT_FALSE(out.ask.has_value());
    now = std::max(now, out.wake_at);
  }
  EXPECT_EQ(link.state(), LinkState::kWaiting);
}

}  // namespace
}  // namespace moonpool::storage_node
