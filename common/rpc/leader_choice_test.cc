#include "common/rpc/leader_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr LeaderChoiceOptions kOptions = {.pause_min = absl::Milliseconds(20),
                                          .pause_max = absl::Seconds(5),
                                          .election_pause_max = absl::Milliseconds(200),
                                          .patience = absl::Seconds(1),
                                          .patience_max = absl::Seconds(3),
                                          .patience_when_silent = absl::Milliseconds(150)};

class LeaderChoiceTest : public ::testing::Test {
 protected:
  static LeaderChoice Of(const std::vector<std::string>& addresses) {
    return LeaderChoice(addresses, kOptions, Random(1));
  }
  std::string Ask(LeaderChoice& choice) { return choice.Next(now_).address; }
  // Goes to the end of the pause; how long it was.
  absl::Duration Pause(LeaderChoice& choice) {
    const LeaderChoice::Step step = choice.Next(now_);
    EXPECT_THAT(step.address, IsEmpty());
    const absl::Duration pause = step.at - now_;
    now_ = step.at;
    return pause;
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1000);
  LeaderChoice choice_ = Of({"a:1", "b:1", "c:1"});
};

TEST_F(LeaderChoiceTest, StaysWithTheFirstThatLeads) {
  EXPECT_EQ(Ask(choice_), "a:1");
  EXPECT_EQ(Ask(choice_), "a:1") << "until it is told what came of it";
  choice_.OnUnreachable(now_);
  EXPECT_EQ(Ask(choice_), "b:1");
  choice_.OnLeader();
  choice_.StartRound();
  EXPECT_EQ(Ask(choice_), "b:1");
}

TEST_F(LeaderChoiceTest, GoesWhereItIsSent) {
  EXPECT_EQ(Ask(choice_), "a:1");
  choice_.OnNotLeader("c:1", now_);
  EXPECT_EQ(Ask(choice_), "c:1");
  choice_.OnLeader();
  // When its reign ends, the next leader is named by it or found in turn.
  choice_.OnNotLeader("b:1", now_);
  EXPECT_EQ(Ask(choice_), "b:1");
}

TEST_F(LeaderChoiceTest, AfterARoundThereIsAPauseThatGrowsAndStaysShortInAnElection) {
  absl::Duration longest = absl::ZeroDuration();
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> asked;
    do {
      asked.push_back(Ask(choice_));
      if (asked.size() == 2) {
        choice_.OnNotLeader("", now_);
      } else {
        choice_.OnUnreachable(now_);
      }
    } while (!choice_.is_round_over());
    EXPECT_THAT(asked, ElementsAre("a:1", "b:1", "c:1"));
    const absl::Duration pause = Pause(choice_);
    if (round == 0) {
      EXPECT_LE(pause, absl::Milliseconds(20));
    }
    EXPECT_GE(pause, absl::Milliseconds(10));
    longest = std::max(longest, pause);
  }
  EXPECT_GT(longest, absl::Milliseconds(100));
  EXPECT_LE(longest, absl::Milliseconds(200));
}

// Many who ask ten times a second for as long as an etcd is away would be a load of their own.
TEST_F(LeaderChoiceTest, InALongElectionPausesGrowOn) {
  LeaderChoiceOptions options = kOptions;
  options.long_election_pause_max = absl::Seconds(1);
  LeaderChoice choice({"a:1", "b:1"}, options, Random(1));
  const absl::Time begun = now_;
  const auto round = [&] {
    while (!choice.is_round_over()) {
      Ask(choice);
      choice.OnNotLeader("", now_);
    }
    return Pause(choice);
  };
  for (int i = 0; i < LeaderChoice::kQuickRounds; ++i) {
    EXPECT_LE(round(), options.election_pause_max);
    Ask(choice);  // begins the next one
  }
  EXPECT_GT(now_ - begun, absl::Seconds(2));
  EXPECT_LT(now_ - begun, absl::Seconds(4));
  absl::Duration longest = absl::ZeroDuration();
  for (int i = 0; i < 20; ++i) {
    longest = std::max(longest, round());
    Ask(choice);
  }
  EXPECT_GT(longest, absl::Milliseconds(800));
  EXPECT_LE(longest, options.long_election_pause_max);
  // And are short again in the next election.
  choice.OnLeader();
  EXPECT_LE(round(), options.pause_min);
}

TEST_F(LeaderChoiceTest, WhereNobodyAnswersPausesGrowUntilSomebodyDoes) {
  LeaderChoice lone = Of({"a:1"});
  absl::Duration pause;
  for (int round = 0; round < 12; ++round) {
    EXPECT_EQ(Ask(lone), "a:1");
    lone.OnUnreachable(now_);
    pause = Pause(lone);
  }
  EXPECT_GE(pause, absl::Milliseconds(2500));
  EXPECT_EQ(Ask(lone), "a:1");
  lone.OnNotLeader("", now_);
  EXPECT_LE(Pause(lone), absl::Milliseconds(200));
  EXPECT_EQ(Ask(lone), "a:1");
  lone.OnLeader();
  lone.OnUnreachable(now_);
  EXPECT_LE(Pause(lone), absl::Milliseconds(20));
}

TEST_F(LeaderChoiceTest, TwoThatNameEachOtherAreAskedOnceInARound) {
  LeaderChoice choice = Of({"a:1", "b:1"});
  int asked = 0;
  const absl::Time begun = now_;
  while (now_ < begun + absl::Seconds(2)) {
    const std::string address = Ask(choice);
    ++asked;
    choice.OnNotLeader(address == "a:1" ? "b:1" : "a:1", now_);
    if (choice.is_round_over()) Pause(choice);
  }
  EXPECT_LE(asked, 60);
}

TEST_F(LeaderChoiceTest, ThatOneNamesItselfIsNoNews) {
  EXPECT_EQ(Ask(choice_), "a:1");
  choice_.OnNotLeader("a:1", now_);
  EXPECT_EQ(Ask(choice_), "b:1");
}

TEST_F(LeaderChoiceTest, WhoWasSilentIsAskedLastAndBrieflyAlsoWhenItIsNamed) {
  EXPECT_EQ(choice_.Next(now_).patience, absl::Seconds(1));
  choice_.OnSilent(now_);
  for (const char* other : {"b:1", "c:1"}) {
    EXPECT_EQ(choice_.Next(now_).address, other);
    EXPECT_EQ(choice_.Next(now_).patience, absl::Seconds(1));
    choice_.OnNotLeader("a:1", now_);
  }
  EXPECT_TRUE(choice_.is_round_over());
  Pause(choice_);
  EXPECT_EQ(Ask(choice_), "b:1");
  choice_.OnNotLeader("a:1", now_);
  EXPECT_EQ(Ask(choice_), "c:1");
  choice_.OnNotLeader("a:1", now_);
  EXPECT_EQ(Ask(choice_), "a:1");
  EXPECT_EQ(choice_.Next(now_).patience, absl::Milliseconds(150));
}

TEST_F(LeaderChoiceTest, AfterAWhileTheSilentGetsMoreTimeThanBefore) {
  EXPECT_EQ(Ask(choice_), "a:1");
  choice_.OnSilent(now_);
  // Further silences within the while say nothing new.
  for (int round = 0; round < 3; ++round) {
    while (Ask(choice_) != "a:1") {
      choice_.OnNotLeader("", now_);
      if (choice_.is_round_over()) Pause(choice_);
    }
    choice_.OnSilent(now_);
    if (choice_.is_round_over()) Pause(choice_);
  }
  now_ += LeaderChoice::kSilentFor;
  EXPECT_EQ(choice_.Next(now_).address, "a:1") << "in its place again";
  EXPECT_EQ(choice_.Next(now_).patience, absl::Seconds(2));
  choice_.OnLeader();
  choice_.StartRound();
  EXPECT_EQ(choice_.Next(now_).patience, absl::Seconds(1));
}

TEST_F(LeaderChoiceTest, ALoneMasterHasAllThePatience) {
  LeaderChoice lone = Of({"a:1", "a:1"});
  EXPECT_EQ(lone.size(), 1u);
  EXPECT_EQ(lone.Next(now_).patience, absl::Seconds(3));
  lone.OnSilent(now_);
  Pause(lone);
  EXPECT_EQ(lone.Next(now_).patience, absl::Seconds(3));
}

TEST_F(LeaderChoiceTest, AnAddressThatIsOnNoListIsLearnt) {
  LeaderChoice choice = Of({"a:1"});
  EXPECT_EQ(Ask(choice), "a:1");
  choice.OnNotLeader("[fd00::2]:7400", now_);
  EXPECT_EQ(Ask(choice), "[fd00::2]:7400");
  choice.OnLeader();
  choice.OnUnreachable(now_);
  EXPECT_EQ(Ask(choice), "a:1");
  choice.OnNotLeader("x:2", now_);
  EXPECT_EQ(Ask(choice), "x:2");
  choice.OnUnreachable(now_);
  Pause(choice);
  EXPECT_EQ(Ask(choice), "a:1");
  EXPECT_TRUE(choice.Knows("[fd00::2]:7400")) << "it may lead again while a is away";
}

TEST_F(LeaderChoiceTest, WhatWasLearntAndIsSilentIsForgottenWhenAnotherLeads) {
  LeaderChoice choice = Of({"a:1"});
  EXPECT_EQ(Ask(choice), "a:1");
  choice.OnNotLeader("x:1", now_);
  EXPECT_EQ(Ask(choice), "x:1");
  choice.OnSilent(now_);
  EXPECT_TRUE(choice.Knows("x:1"));
  Pause(choice);
  EXPECT_EQ(Ask(choice), "a:1");
  choice.OnLeader();
  EXPECT_FALSE(choice.Knows("x:1"));
}

TEST_F(LeaderChoiceTest, WhatIsNoAddressIsIgnored) {
  for (const std::string& odd :
       {std::string("x"), std::string(":1"), std::string("x:0"), std::string("x:65536"),
        std::string("x:1\n"), std::string("x y:1"), std::string("\0:1", 3), std::string("/x:1"),
        std::string(300, 'x') + ":1"}) {
    LeaderChoice choice = Of({"a:1", "b:1"});
    EXPECT_EQ(Ask(choice), "a:1");
    choice.OnNotLeader(odd, now_);
    EXPECT_EQ(choice.size(), 2u) << odd;
    EXPECT_EQ(Ask(choice), "b:1");
  }
}

TEST_F(LeaderChoiceTest, WhoNamesANewOneEachTimeIsFollowedAFewTimes) {
  std::set<std::string> asked;
  int named = 0;
  while (!choice_.is_round_over()) {
    EXPECT_TRUE(asked.insert(Ask(choice_)).second);
    choice_.OnNotLeader(absl::StrCat("x", ++named, ":1"), now_);
  }
  EXPECT_EQ(asked.size(), 3 + LeaderChoice::kLearntMax);
  EXPECT_EQ(choice_.size(), 3 + LeaderChoice::kLearntMax);
  // And those that are named later take the place of the oldest.
  Pause(choice_);
  Ask(choice_);
  choice_.OnNotLeader("y:1", now_);
  EXPECT_EQ(Ask(choice_), "y:1");
  EXPECT_FALSE(choice_.Knows("x1:1"));
  EXPECT_EQ(choice_.size(), 3 + LeaderChoice::kLearntMax);
}

// As among calls that ask at the same time.
TEST_F(LeaderChoiceTest, WhatOthersFindOutCountsAndAsksNobody) {
  choice_.NoteLeader("x:1");
  EXPECT_EQ(Ask(choice_), "x:1");
  choice_.StartRound();
  choice_.NoteFollower("a:1");
  choice_.NoteUnreachable("b:1");
  EXPECT_EQ(Ask(choice_), "x:1") << "what is told of others does not touch it";
  choice_.StartRound();
  choice_.NoteFollower("x:1");
  EXPECT_EQ(Ask(choice_), "a:1");
  choice_.StartRound();
  choice_.NoteSilent("a:1", now_);
  choice_.NoteSilent("a:1", now_);
  EXPECT_EQ(Ask(choice_), "b:1");
  now_ += LeaderChoice::kSilentFor;
  choice_.StartRound();
  EXPECT_EQ(Ask(choice_), "a:1");
  EXPECT_EQ(choice_.Next(now_).patience, absl::Seconds(2)) << "it was one silence";
  choice_.NoteFollower("a:1");
  EXPECT_EQ(choice_.Next(now_).patience, absl::Seconds(1));
}

TEST(IsAnswerOfLeader, IsWhateverOnlyALeaderSays) {
  const auto with = [](ErrorReason reason) {
    return MakeError(absl::StatusCode::kUnavailable, reason, "no");
  };
  EXPECT_TRUE(IsAnswerOfLeader(absl::OkStatus()));
  EXPECT_TRUE(IsAnswerOfLeader(with(ErrorReason::kNotSaved)));
  EXPECT_TRUE(IsAnswerOfLeader(with(ErrorReason::kUnspecified))) << "a reason of a later release";
  EXPECT_FALSE(IsAnswerOfLeader(with(ErrorReason::kNotLeader)));
  EXPECT_FALSE(IsAnswerOfLeader(with(ErrorReason::kShuttingDown)));
  EXPECT_FALSE(IsAnswerOfLeader(absl::UnavailableError("connection refused")));
  EXPECT_FALSE(IsAnswerOfLeader(absl::DeadlineExceededError("")));
}

TEST_F(LeaderChoiceTest, WhateverItIsToldItIsBoundedAndAsksEverybody) {
  Random random(5);
  const std::vector<std::string> named = {"", "a:1", "b:1", "c:1", "x:1", "y:1", "z:1", "no"};
  std::set<std::string> seen;
  int asked = 0;
  const absl::Time begun = now_;
  for (int i = 0; i < 20'000; ++i) {
    const LeaderChoice::Step step = choice_.Next(now_);
    ASSERT_LE(choice_.size(), 3 + LeaderChoice::kLearntMax);
    ASSERT_EQ(step.address.empty(), step.at > now_);
    if (step.address.empty()) {
      now_ = step.at;
      continue;
    }
    ++asked;
    seen.insert(step.address);
    ASSERT_TRUE(choice_.Knows(step.address));
    switch (random.Below(8)) {
      case 0: choice_.OnSilent(now_ += step.patience); break;
      case 1: choice_.OnUnreachable(now_); break;
      case 2:
        if (random.OneIn(20)) choice_.OnLeader();
        break;
      case 3:
        if (random.OneIn(20)) choice_.StartRound();
        break;
      default: choice_.OnNotLeader(named[random.Below(named.size())], now_);
    }
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_GT(now_ - begun, asked * absl::Milliseconds(2));
}

}  // namespace
}  // namespace moonpool
