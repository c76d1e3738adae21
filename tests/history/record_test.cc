#include "tests/history/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"

namespace moonpool::history {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Record Put() {
  return {.client = 7,
          .op = Op::kPut,
          .key = "key-1",
          .value = uint64_t{1} << 63,
          .replicas = 2,
          .invoked = absl::FromUnixNanos(1'000'000'001)};
}

TEST(RecordText, WhatWasWrittenIsRead) {
  Record put = Put();
  std::string text = BeginLine(1, put);
  put.returned = absl::FromUnixNanos(2'000'000'002);
  put.outcome = Outcome::kUndecided;
  put.words = "UNAVAILABLE: two\nlines";
  text += EndLine(1, put);
  const auto records = ParseRecords(text);
  ASSERT_THAT(records, IsOk());
  ASSERT_THAT(*records, SizeIs(1));
  const Record& read = records->front();
  EXPECT_EQ(read.client, 7u);
  EXPECT_EQ(read.op, Op::kPut);
  EXPECT_EQ(read.key, "key-1");
  EXPECT_EQ(read.value, uint64_t{1} << 63);
  EXPECT_EQ(read.replicas, 2u);
  EXPECT_EQ(read.invoked, put.invoked);
  EXPECT_EQ(read.returned, put.returned);
  EXPECT_EQ(read.outcome, Outcome::kUndecided);
  EXPECT_EQ(read.words, "UNAVAILABLE: two lines");
}

TEST(RecordText, ACallWithoutAnEndIsOpen) {
  const auto records = ParseRecords(BeginLine(1, Put()));
  ASSERT_THAT(records, IsOk());
  ASSERT_THAT(*records, SizeIs(1));
  EXPECT_EQ(records->front().outcome, Outcome::kOpen);
  EXPECT_EQ(records->front().returned, absl::InfiniteFuture());
}

TEST(AsOf, WhatEndedLaterIsOpenAndWhatBeganLaterIsNotThere) {
  const absl::Time time = absl::FromUnixSeconds(10);
  const auto call = [&](Op op, int begin, int end) {
    return Record{.op = op,
                  .key = "k",
                  .value = 5,
                  .invoked = absl::FromUnixSeconds(begin),
                  .returned = absl::FromUnixSeconds(end),
                  .outcome = Outcome::kDone};
  };
  const auto records = AsOf({call(Op::kPut, 1, 10), call(Op::kPut, 9, 11), call(Op::kGet, 10, 12),
                             call(Op::kGet, 11, 12)},
                            time);
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(records[0].outcome, Outcome::kDone);
  EXPECT_EQ(records[1].outcome, Outcome::kOpen);
  EXPECT_EQ(records[1].returned, absl::InfiniteFuture());
  EXPECT_EQ(records[1].value, 5u) << "the attempt of a put is known from its begin";
  EXPECT_EQ(records[2].outcome, Outcome::kOpen);
  EXPECT_EQ(records[2].value, 0u);
}

TEST(RecordText, CallsOfThreadsMayStandInEachOther) {
  Record first = Put(), second = Put();
  first.outcome = Outcome::kDone;
  second.outcome = Outcome::kThere;
  first.returned = second.returned = first.invoked;
  const auto records = ParseRecords(BeginLine(1, first) + BeginLine(2, second) +
                                    EndLine(2, second) + EndLine(1, first));
  ASSERT_THAT(records, IsOk());
  ASSERT_THAT(*records, SizeIs(2));
  EXPECT_EQ((*records)[0].outcome, Outcome::kDone);
  EXPECT_EQ((*records)[1].outcome, Outcome::kThere);
}

TEST(RecordText, ALineThatWasCutOffIsLeftOut) {
  const std::string line = BeginLine(1, Put());
  const std::string whole = BeginLine(2, Put());
  for (size_t kept = 0; kept < line.size(); ++kept) {
    const auto records = ParseRecords(whole + line.substr(0, kept));
    ASSERT_THAT(records, IsOk()) << kept;
    EXPECT_THAT(*records, SizeIs(1)) << kept;
  }
  const auto nothing = ParseRecords("");
  ASSERT_THAT(nothing, IsOk());
  EXPECT_THAT(*nothing, IsEmpty());
}

TEST(RecordText, WhatIsNoRecordIsSaidToBeNone) {
  for (const char* bad : {"hello\n", "begin 1 2 put k 3\n", "begin x 2 put k 3 1 4\n",
                          "begin 1 2 sing k 3 1 4\n", "end 9 done 0 5 \n"}) {
    EXPECT_THAT(ParseRecords(bad), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
  const std::string twice = BeginLine(1, Put()) + BeginLine(1, Put());
  EXPECT_THAT(ParseRecords(twice), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace moonpool::history
