#include "tests/chaos/summary.h"

#include <gtest/gtest.h>

namespace moonpool::chaos {
namespace {

using history::Op;
using history::Outcome;
using history::Record;

Record Call(Op op, Outcome outcome, int returned) {
  return {.op = op,
          .invoked = absl::FromUnixSeconds(0),
          .returned = absl::FromUnixSeconds(returned),
          .outcome = outcome};
}

TEST(Summary, CountsByKindAndOutcome) {
  const Record records[] = {Call(Op::kPut, Outcome::kDone, 1), Call(Op::kPut, Outcome::kDone, 2),
                            Call(Op::kPut, Outcome::kThere, 3), Call(Op::kGet, Outcome::kDone, 4)};
  const nlohmann::json expected = {{"put", {{"done", 2}, {"there", 1}}}, {"get", {{"done", 1}}}};
  EXPECT_EQ(CountCalls(records), expected);
}

TEST(Summary, ErrorsAndOtherKindsDoNotEndASilence) {
  const Record records[] = {Call(Op::kPut, Outcome::kDone, 9), Call(Op::kPut, Outcome::kDone, 1),
                            Call(Op::kPut, Outcome::kUndecided, 5),
                            Call(Op::kGet, Outcome::kDone, 4)};
  EXPECT_EQ(LongestSilence(records, {Op::kPut}), absl::Seconds(8));
  EXPECT_EQ(LongestSilence(records, {Op::kPut, Op::kGet}), absl::Seconds(5));
  EXPECT_EQ(LongestSilence(records, {Op::kRemove}), absl::ZeroDuration());
}

}  // namespace
}  // namespace moonpool::chaos
