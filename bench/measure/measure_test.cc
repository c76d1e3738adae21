#include "bench/measure/latency.h"
#include "bench/measure/samples.h"
#include "gtest/gtest.h"

namespace moonpool::bench {
namespace {

TEST(LatencyHistogram, QuantilesAreWithinOnePercent) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 100'000; ++i) histogram.Add(absl::Microseconds(i));
  for (double quantile : {0.01, 0.5, 0.99, 1.0}) {
    EXPECT_NEAR(histogram.QuantileMicros(quantile), quantile * 100'000, quantile * 1'000);
  }
  EXPECT_EQ(histogram.count(), 100'000u);
}

TEST(LatencyHistogram, TakesEveryValue) {
  LatencyHistogram histogram;
  histogram.Add(absl::ZeroDuration());
  histogram.Add(absl::Nanoseconds(127));
  histogram.Add(absl::Hours(24 * 365 * 100));
  EXPECT_EQ(histogram.Quantile(0), absl::ZeroDuration());
  EXPECT_EQ(histogram.Quantile(0.5), absl::Nanoseconds(127));
  EXPECT_GT(histogram.Quantile(1), absl::Hours(24 * 365 * 99));
  LatencyHistogram other;
  other.Merge(histogram);
  EXPECT_EQ(other.count(), 3u);
}

TEST(Samples, MedianOfOddAndEvenCounts) {
  Samples samples;
  EXPECT_EQ(samples.Median(), 0);
  for (double value : {3.0, 1.0, 2.0}) samples.Add(value);
  EXPECT_EQ(samples.Median(), 2);
  samples.Add(10);
  EXPECT_EQ(samples.Median(), 2.5);
  EXPECT_EQ(samples.Min(), 1);
  EXPECT_EQ(samples.Max(), 10);
}

}  // namespace
}  // namespace moonpool::bench
