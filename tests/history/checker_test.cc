// Histories by hand: what cannot have happened is found, and what can is let pass.
#include "tests/history/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonpool::history {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

Interval From(int begin, int end) { return {At(begin), At(end)}; }

class CheckerTest : public ::testing::Test {
 protected:
  // Calls of key "k" from one second to another.
  Record& Add(Op op, int invoked, int returned, Outcome outcome, uint64_t value = 0) {
    records_.push_back({.client = 1,
                        .op = op,
                        .key = "k",
                        .value = value,
                        .replicas = replicas_,
                        .invoked = At(invoked),
                        .returned = At(returned),
                        .outcome = outcome});
    return records_.back();
  }
  Record& Put(uint64_t value, int invoked, int returned, Outcome outcome = Outcome::kDone) {
    return Add(Op::kPut, invoked, returned, outcome, value);
  }
  void Get(uint64_t value, int invoked, int returned) {
    Add(Op::kGet, invoked, returned, Outcome::kDone, value);
  }
  void Miss(int invoked, int returned) { Add(Op::kGet, invoked, returned, Outcome::kAbsent); }
  void Exists(int invoked, int returned) { Add(Op::kExists, invoked, returned, Outcome::kDone); }
  void Remove(int invoked, int returned, Outcome outcome = Outcome::kDone) {
    Add(Op::kRemove, invoked, returned, outcome);
  }
  // A put whose client was killed.
  void OpenPut(uint64_t value, int invoked) {
    Record& put = Put(value, invoked, 0, Outcome::kOpen);
    put.returned = absl::InfiniteFuture();
  }
  std::vector<std::string> Rules() const {
    std::vector<std::string> rules;
    for (const Violation& violation : Check(records_, excuses_)) rules.push_back(violation.rule);
    return rules;
  }

  uint32_t replicas_ = 1;
  std::vector<Record> records_;
  Excuses excuses_;
};

TEST_F(CheckerTest, AnOrdinaryLifeOfAKeyPasses) {
  Miss(0, 1);
  Put(1, 1, 2);
  Get(1, 2, 3);
  Exists(2, 3);
  Put(2, 3, 4, Outcome::kThere);
  Get(1, 4, 5);
  Remove(5, 6);
  Miss(7, 8);
  Put(3, 8, 9);
  Get(3, 9, 10);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, BytesOfNobodyAreForeign) {
  Put(1, 1, 2);
  Get(0, 3, 4);
  EXPECT_THAT(Rules(), ElementsAre("foreign", "changed"));
}

TEST_F(CheckerTest, AValueOfAnotherKeyIsForeign) {
  Put(1, 1, 2).key = "other";
  Get(1, 3, 4);
  EXPECT_THAT(Rules(), ElementsAre("foreign"));
}

TEST_F(CheckerTest, AValueOfAPutToComeIsForeign) {
  Get(1, 1, 2);
  Put(1, 3, 4);
  EXPECT_THAT(Rules(), ElementsAre("foreign"));
}

TEST_F(CheckerTest, AValueMayBeReadBeforeItsPutHasReturned) {
  Put(1, 1, 9);
  Get(1, 2, 3);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, AnAcknowledgedPutStays) {
  Put(1, 1, 2);
  Miss(3, 4);
  const std::vector<Violation> violations = Check(records_, excuses_);
  EXPECT_THAT(violations,
              ElementsAre(AllOf(Field(&Violation::rule, "missing"), Field(&Violation::key, "k"),
                                Field(&Violation::what, HasSubstr("put k done, value 1")),
                                Field(&Violation::what, HasSubstr("get k absent")))));
}

TEST_F(CheckerTest, WhatWasOnceReadStays) {
  OpenPut(1, 1);
  Get(1, 3, 4);
  Miss(5, 6);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
}

TEST_F(CheckerTest, WhatWasSaidToExistOrToBeThereStays) {
  OpenPut(1, 1);
  Exists(3, 4);
  Miss(5, 6);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
  records_.clear();
  OpenPut(1, 1);
  Put(2, 3, 4, Outcome::kThere);
  Add(Op::kExists, 5, 6, Outcome::kAbsent);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
}

TEST_F(CheckerTest, WhatMayNotHaveBeenStoredMayBeAbsent) {
  excuses_.disturbed = {From(1, 2)};
  Put(1, 1, 2, Outcome::kUndecided);
  OpenPut(2, 1);
  Miss(3, 4);
  Get(1, 5, 6);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, AMissThatOverlapsThePutSaysNothing) {
  Put(1, 1, 3);
  Miss(2, 4);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, AMissWhileSomethingIsBrokenSaysNothing) {
  excuses_.disturbed = {From(4, 5)};
  Put(1, 1, 2);
  Miss(3, 4);
  EXPECT_THAT(Rules(), IsEmpty());
  Miss(6, 7);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
}

TEST_F(CheckerTest, AsManyLossesAsReplicasTakeAnObject) {
  replicas_ = 2;
  Put(1, 1, 2);
  excuses_.losses = {{.node = 0, .when = From(3, 3)}, {.node = 0, .when = From(4, 4)}};
  Miss(5, 6);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
  excuses_.losses.push_back({.node = 1, .when = From(5, 5)});
  EXPECT_THAT(Rules(), IsEmpty());
}

// One replica was lost before the get, the other one after it.
TEST_F(CheckerTest, LossesCountFromThePutOn) {
  replicas_ = 2;
  Put(1, 1, 2);
  excuses_.losses = {{.node = 0, .when = From(3, 3)}, {.node = 1, .when = From(6, 6)}};
  Get(1, 4, 5);
  Miss(7, 8);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, ANodeThatWasGivenUpBringsBackWhatOnlyItHad) {
  Put(1, 1, 2);
  excuses_.losses = {{.node = 0, .when = From(3, 3), .is_for_good = false}};
  Miss(5, 6);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
}

TEST_F(CheckerTest, ANodeThatWasGivenUpIsNoSecondHolder) {
  replicas_ = 2;
  Put(1, 1, 2);
  excuses_.losses = {{.node = 0, .when = From(3, 3), .is_for_good = false},
                     {.node = 1, .when = From(4, 4)}};
  Miss(5, 6);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, ALossBeforeThePutTakesNothing) {
  excuses_.losses = {{.node = 0, .when = From(1, 2)}};
  Put(1, 3, 4);
  Miss(5, 6);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
}

TEST_F(CheckerTest, ASmallPoolEvicts) {
  excuses_.evicts = true;
  Put(1, 1, 2);
  Miss(3, 4);
  Put(2, 5, 6);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, ARemovedValueDoesNotReturn) {
  Put(1, 1, 2);
  Remove(3, 4);
  Get(1, 5, 6);
  EXPECT_THAT(Rules(), ElementsAre("returned"));
}

TEST_F(CheckerTest, NotEvenWhereThingsAreBrokenOrLost) {
  excuses_.disturbed = {From(0, 99)};
  excuses_.losses = {{.node = 0, .when = From(0, 99)}};
  excuses_.evicts = true;
  Put(1, 1, 2);
  Remove(3, 4);
  Add(Op::kView, 5, 6, Outcome::kDone, 1);
  EXPECT_THAT(Rules(), ElementsAre("returned"));
}

TEST_F(CheckerTest, ARemovedKeyIsNotSaidToExist) {
  Put(1, 1, 2);
  Remove(3, 4);
  Exists(5, 6);
  EXPECT_THAT(Rules(), ElementsAre("returned"));
  OpenPut(2, 4);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, ARemovalWithoutAnAnswerMayTakeEffectAWhileLater) {
  excuses_.disturbed = {From(3, 4)};
  excuses_.removal_late = absl::Seconds(10);
  Put(1, 1, 2);
  Remove(3, 4, Outcome::kUndecided);
  Get(1, 5, 6);
  Put(2, 8, 9);
  Put(3, 14, 15);
  EXPECT_THAT(Rules(), IsEmpty());
  Put(4, 20, 21);
  EXPECT_THAT(Rules(), ElementsAre("changed"));
}

TEST_F(CheckerTest, ARemovalOfAnEarlierValueLeavesALaterOne) {
  Put(1, 1, 2);
  Remove(3, 4);
  Put(2, 5, 6);
  Get(2, 7, 8);
  EXPECT_THAT(Rules(), IsEmpty());
  Miss(9, 10);
  EXPECT_THAT(Rules(), ElementsAre("missing"));
}

TEST_F(CheckerTest, TwoPutsOfOneKeyAreNotBothTheFirst) {
  Put(1, 1, 2);
  Put(2, 3, 4);
  EXPECT_THAT(Rules(), ElementsAre("changed"));
}

// Neither is excused by a removal that ended before the first of them.
TEST_F(CheckerTest, ReadersDoNotSeeTwoValues) {
  Remove(0, 0);
  OpenPut(1, 1);
  OpenPut(2, 1);
  Get(1, 2, 3);
  Get(2, 4, 5);
  EXPECT_THAT(Rules(), ElementsAre("changed"));
}

TEST_F(CheckerTest, CallsThatOverlapMayEndInAnyOrder) {
  Put(1, 1, 4);
  Put(2, 2, 3, Outcome::kThere);
  Get(1, 2, 5);
  EXPECT_THAT(Rules(), IsEmpty());
}

// The leader had not heard of a node that was away with the first.
TEST_F(CheckerTest, ValuesMayChangeWhileSomethingIsBroken) {
  excuses_.disturbed = {From(3, 3)};
  Put(1, 1, 2);
  Put(2, 3, 4);
  EXPECT_THAT(Rules(), IsEmpty());
}

TEST_F(CheckerTest, ACallFailsOnlyWhileSomethingIsBroken) {
  excuses_.disturbed = {From(1, 2)};
  Add(Op::kGet, 2, 3, Outcome::kUndecided);
  EXPECT_THAT(Rules(), IsEmpty());
  Add(Op::kGet, 3, 4, Outcome::kUndecided);
  EXPECT_THAT(Rules(), ElementsAre("failed"));
}

TEST_F(CheckerTest, CallsEndInTime) {
  excuses_.call_max = absl::Seconds(5);
  Miss(1, 6);
  OpenPut(1, 1);
  EXPECT_THAT(Rules(), IsEmpty());
  Miss(1, 7);
  EXPECT_THAT(Rules(), ElementsAre("late"));
}

TEST_F(CheckerTest, AnErrorThatNoCallMayHaveIsNeverExcused) {
  excuses_.disturbed = {From(0, 9)};
  Put(1, 1, 2, Outcome::kRefused);
  EXPECT_THAT(Rules(), ElementsAre("refused"));
}

TEST_F(CheckerTest, KeysHaveNothingToDoWithEachOther) {
  Put(1, 1, 2);
  Put(2, 3, 4).key = "other";
  Miss(5, 6);
  records_.back().key = "third";
  EXPECT_THAT(Rules(), IsEmpty());
}

}  // namespace
}  // namespace moonpool::history
