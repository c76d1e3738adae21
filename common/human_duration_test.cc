#include "common/human_duration.h"

#include "gtest/gtest.h"

namespace moonpool {
namespace {

TEST(HumanDuration, TwoUnitsAndNoFractionThatNobodyReads) {
  EXPECT_EQ(HumanDuration(absl::ZeroDuration()), "0ms");
  EXPECT_EQ(HumanDuration(absl::Microseconds(250'999)), "250ms");
  EXPECT_EQ(HumanDuration(absl::Nanoseconds(3'299'999'999)), "3.2s");
  EXPECT_EQ(HumanDuration(absl::Seconds(59.99)), "59.9s");
  EXPECT_EQ(HumanDuration(absl::Seconds(200)), "3m 20s");
  EXPECT_EQ(HumanDuration(absl::Minutes(5 * 60 + 12)), "5h 12m");
  EXPECT_EQ(HumanDuration(absl::Hours(8 * 24 + 3)), "8d 3h");
}

TEST(HumanDuration, TheEnds) {
  EXPECT_EQ(HumanDuration(absl::Seconds(-1)), "0ms");
  EXPECT_EQ(HumanDuration(absl::InfiniteDuration()), "forever");
}

}  // namespace
}  // namespace moonpool
