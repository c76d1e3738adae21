#include "common/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace moonpool::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, TextShowsHelpTypeLabelsAndValue) {
  Registry registry;
  registry.AddCounter("moonpool_node_puts_total", "Objects stored.", {{"tier", "dram"}})
      .Increment(3);
  registry.AddGauge("moonpool_node_used_bytes", "Bytes in use.").Set(4096);
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("# HELP moonpool_node_puts_total Objects stored.\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE moonpool_node_puts_total counter\n"));
  EXPECT_THAT(text, HasSubstr("moonpool_node_puts_total{tier=\"dram\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("moonpool_node_used_bytes 4096\n"));
}

TEST(Metrics, SameNameAndLabelsIsTheSameMetric) {
  Registry registry;
  Counter& one = registry.AddCounter("moonpool_x_y_total", "h", {{"a", "1"}});
  Counter& same = registry.AddCounter("moonpool_x_y_total", "h", {{"a", "1"}});
  Counter& other = registry.AddCounter("moonpool_x_y_total", "h", {{"a", "2"}});
  EXPECT_EQ(&one, &same);
  EXPECT_NE(&one, &other);
}

TEST(Metrics, ReferencesSurviveLaterRegistrations) {
  Registry registry;
  Counter& first = registry.AddCounter("moonpool_m_first_total", "h");
  for (int i = 0; i < 200; ++i) {
    registry.AddCounter("moonpool_a_" + std::to_string(i) + "_total", "h");
  }
  first.Increment();
  EXPECT_THAT(registry.Text(), HasSubstr("moonpool_m_first_total 1\n"));
}

TEST(Metrics, HistogramBucketsAreCumulativeAndBoundsInclusive) {
  Registry registry;
  Histogram& histogram = registry.AddHistogram("moonpool_x_seconds", "h", {1, 10});
  histogram.Observe(0.5);
  histogram.Observe(1);
  histogram.Observe(5);
  histogram.Observe(100);
  const Histogram::Snapshot snapshot = histogram.Read();
  EXPECT_THAT(snapshot.cumulative, ElementsAre(std::pair(1.0, 2u), std::pair(10.0, 3u)));
  EXPECT_EQ(snapshot.count, 4u);
  EXPECT_DOUBLE_EQ(snapshot.sum, 106.5);
}

TEST(Metrics, HistogramTextEndsWithTheInfiniteBucket) {
  Registry registry;
  registry.AddHistogram("moonpool_node_get_seconds", "h", {0.001, 0.1})
      .Observe(absl::Milliseconds(50));
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("moonpool_node_get_seconds_bucket{le=\"0.1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("moonpool_node_get_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("moonpool_node_get_seconds_count 1\n"));
}

TEST(Metrics, TextEscapesAndShowsLargeNumbersInFull) {
  Registry registry;
  registry.AddGauge("moonpool_x_ratio", "h", {{"path", "a\"b\\c\nd"}, {"n", "1"}}).Set(0.1);
  registry.AddGauge("moonpool_y_bytes", "h").Set(123456789012345.0);
  registry.AddGauge("moonpool_z_ratio", "h").Set(std::nan(""));
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("moonpool_x_ratio{path=\"a\\\"b\\\\c\\nd\",n=\"1\"} 0.1\n"));
  EXPECT_THAT(text, HasSubstr("moonpool_y_bytes 123456789012345\n"));
  EXPECT_THAT(text, HasSubstr("moonpool_z_ratio Nan\n"));
}

TEST(Metrics, CountersAreExact) {
  Registry registry;
  Counter& counter = registry.AddCounter("moonpool_x_bytes_total", "h");
  counter.Increment((uint64_t{1} << 53) - 2);
  counter.Increment();
  EXPECT_EQ(counter.value(), (uint64_t{1} << 53) - 1);
}

TEST(Metrics, TextIsSortedByNameAndLabels) {
  Registry registry;
  for (const char* label : {"c", "a", "b"}) {
    registry.AddGauge("moonpool_b_bytes", "h", {{"tier", label}});
    registry.AddSampledGauge("moonpool_a_bytes", "h", [] { return 0; }, {{"tier", label}});
  }
  std::vector<std::string> samples;
  for (const absl::string_view line : absl::StrSplit(registry.Text(), '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "#")) samples.emplace_back(line);
  }
  EXPECT_THAT(samples,
              ElementsAre("moonpool_a_bytes{tier=\"a\"} 0", "moonpool_a_bytes{tier=\"b\"} 0",
                          "moonpool_a_bytes{tier=\"c\"} 0", "moonpool_b_bytes{tier=\"a\"} 0",
                          "moonpool_b_bytes{tier=\"b\"} 0", "moonpool_b_bytes{tier=\"c\"} 0"));
}

TEST(Metrics, SampledGaugeIsReadAtScrape) {
  Registry registry;
  double value = 1;
  registry.AddSampledGauge("moonpool_x_depth", "h", [&value] { return value; });
  value = 7;
  EXPECT_THAT(registry.Text(), HasSubstr("moonpool_x_depth 7\n"));
}

TEST(Metrics, CountsFromManyThreadsAddUp) {
  Registry registry;
  Counter& counter = registry.AddCounter("moonpool_x_y_total", "h");
  Histogram& histogram = registry.AddHistogram("moonpool_x_seconds", "h", LatencyBuckets());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) {
        counter.Increment();
        histogram.Observe(1.0);
      }
    });
  }
  for (int i = 0; i < 10; ++i) registry.Text();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 40000u);
  EXPECT_EQ(histogram.Read().count, 40000u);
  EXPECT_DOUBLE_EQ(histogram.Read().sum, 40000.0);
}

TEST(Metrics, ProcessMetricsSayWhoAndHowBig) {
  Registry registry;
  AddProcessMetrics(registry, "1.2.3");
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("moonpool_process_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("moonpool_process_resident_bytes 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("moonpool_process_open_files 0\n")));
}

TEST(Metrics, DocsTableHasOneRowPerFamily) {
  Registry registry;
  registry.AddCounter("moonpool_b_y_total", "Second.", {{"reason", "x"}});
  registry.AddCounter("moonpool_b_y_total", "Second.", {{"reason", "y"}});
  registry.AddGauge("moonpool_a_bytes", "First.");
  EXPECT_THAT(DocsMarkdown(registry),
              HasSubstr("| `moonpool_a_bytes` | gauge |  | First. |\n"
                        "| `moonpool_b_y_total` | counter | reason | Second. |\n"));
}

TEST(MetricsDeathTest, NamesAgainstTheRuleEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Registry registry;
  EXPECT_DEATH(registry.AddCounter("moonpool_x_y", "h"), "against the rule");
  EXPECT_DEATH(registry.AddGauge("moonpool_x_total", "h"), "against the rule");
  EXPECT_DEATH(registry.AddGauge("puts", "h"), "against the rule");
  registry.AddGauge("moonpool_x_bytes", "h");
  EXPECT_DEATH(registry.AddHistogram("moonpool_x_bytes", "h", {1}), "two kinds");
}

}  // namespace
}  // namespace moonpool::metrics
