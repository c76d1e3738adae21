#include "bench/trace/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "bench/trace/ideal.h"

namespace moonpool::trace {
namespace {

struct ReuseShape {
  double within_10_minutes = 0;
  double after_30_minutes = 0;
  double hits_of_top_tenth = 0;  // share of the hits that the most hit tenth of the blocks has
};

ReuseShape ShapeOf(const Trace& trace) {
  std::map<uint64_t, absl::Duration> last_use;
  std::map<uint64_t, uint64_t> hits;
  uint64_t reuses = 0;
  uint64_t early = 0;
  uint64_t late = 0;
  for (const Request& request : trace.requests) {
    for (const uint64_t block : request.blocks) {
      const auto [it, is_new] = last_use.try_emplace(block, request.arrival);
      uint64_t& block_hits = hits[block];
      if (is_new) continue;
      ++block_hits;
      ++reuses;
      early += request.arrival - it->second <= absl::Minutes(10);
      late += request.arrival - it->second > absl::Minutes(30);
      it->second = request.arrival;
    }
  }
  std::vector<uint64_t> by_hits;
  for (const auto& [block, count] : hits) by_hits.push_back(count);
  std::sort(by_hits.rbegin(), by_hits.rend());
  uint64_t top = 0;
  for (size_t i = 0; i < by_hits.size() / 10; ++i) top += by_hits[i];
  const double total = static_cast<double>(reuses);
  return {.within_10_minutes = static_cast<double>(early) / total,
          .after_30_minutes = static_cast<double>(late) / total,
          .hits_of_top_tenth = static_cast<double>(top) / total};
}

double MeanInput(const Trace& trace) {
  double total = 0;
  for (const Request& request : trace.requests) total += request.input_tokens;
  return total / static_cast<double>(trace.requests.size());
}

double MeanOutput(const Trace& trace) {
  double total = 0;
  for (const Request& request : trace.requests) total += request.output_tokens;
  return total / static_cast<double>(trace.requests.size());
}

TEST(Generator, ChatHasThePublishedShape) {
  const Trace trace = Generate(Workload::kChat, {.seed = 1});
  ASSERT_EQ(trace.requests.size(), 12000u);
  EXPECT_EQ(trace.block_tokens, 512u);
  EXPECT_NEAR(MeanInput(trace), 12000, 1800);
  EXPECT_NEAR(MeanOutput(trace), 343, 40);
  EXPECT_NEAR(UnboundedHits(trace).rate(), 0.366, 0.04);
  const ReuseShape shape = ShapeOf(trace);
  EXPECT_NEAR(shape.within_10_minutes, 0.80, 0.12);
  EXPECT_NEAR(shape.hits_of_top_tenth, 0.77, 0.10);
  for (const Request& request : trace.requests) EXPECT_EQ(request.blocks.front(), 0u);
}

TEST(Generator, AgentsHaveThePublishedShape) {
  const Trace trace = Generate(Workload::kAgent, {.seed = 1, .requests = 3000});
  ASSERT_EQ(trace.requests.size(), 3000u);
  EXPECT_EQ(trace.block_tokens, 64u);
  EXPECT_NEAR(MeanInput(trace) / MeanOutput(trace), 130, 20);
  EXPECT_NEAR(UnboundedHits(trace).rate(), 0.96, 0.015);
  const ReuseShape shape = ShapeOf(trace);
  EXPECT_NEAR(shape.within_10_minutes, 0.69, 0.05);
  EXPECT_NEAR(shape.after_30_minutes, 0.10, 0.03);
}

TEST(Generator, RequestsAreOrderedAndTheirBlocksCoverTheirTokens) {
  for (const Workload workload : {Workload::kChat, Workload::kAgent}) {
    const Trace trace = Generate(workload, {.seed = 3, .requests = 500, .block_tokens = 128});
    absl::Duration last = absl::ZeroDuration();
    for (const Request& request : trace.requests) {
      EXPECT_LE(last, request.arrival);
      last = request.arrival;
      EXPECT_EQ(request.blocks.size(), (request.input_tokens + 127) / 128);
    }
  }
}

TEST(Generator, TheSeedDecides) {
  const Trace one = Generate(Workload::kChat, {.seed = 1, .requests = 200});
  const Trace same = Generate(Workload::kChat, {.seed = 1, .requests = 200});
  const Trace other = Generate(Workload::kChat, {.seed = 2, .requests = 200});
  const auto signature = [](const Trace& trace) {
    std::vector<uint64_t> values;
    for (const Request& request : trace.requests) {
      values.push_back(static_cast<uint64_t>(absl::ToInt64Milliseconds(request.arrival)));
      values.push_back(request.input_tokens);
      values.insert(values.end(), request.blocks.begin(), request.blocks.end());
    }
    return values;
  };
  EXPECT_EQ(signature(one), signature(same));
  EXPECT_NE(signature(one), signature(other));
}

}  // namespace
}  // namespace moonpool::trace
