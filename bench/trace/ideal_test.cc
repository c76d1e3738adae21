#include "bench/trace/ideal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <vector>

#include "bench/trace/generator.h"
#include "common/random.h"
#include "master/core/eviction/registry.h"

namespace moonpool::trace {
namespace {

Trace TraceOf(std::initializer_list<std::vector<uint64_t>> chains) {
  Trace trace;
  for (const std::vector<uint64_t>& chain : chains) {
    trace.requests.emplace_back().blocks = chain;
  }
  return trace;
}

HitCount Simulate(const Trace& trace, uint32_t capacity_blocks, absl::string_view name) {
  master::SlotTable slots;
  return SimulatePolicy(trace, capacity_blocks, **master::MakeEvictionPolicy(name, slots));
}

TEST(UnboundedHits, CountsPrefixesOnly) {
  const HitCount count = UnboundedHits(TraceOf({{1, 2, 3}, {1, 2, 4}, {5, 2, 3}}));
  EXPECT_EQ(count.references, 9u);
  EXPECT_EQ(count.hits, 2u);
}

TEST(OfflineOptimalHits, KeepsWhatIsUsedNext) {
  // Room for two: LRU has dropped 1 when it comes back, foresight drops 2.
  const Trace trace = TraceOf({{1}, {2}, {3}, {1}});
  EXPECT_EQ(OfflineOptimalHits(trace, 2).hits, 1u);
  EXPECT_EQ(Simulate(trace, 2, "lru").hits, 0u);
}

TEST(OfflineOptimalHits, LeavesGoBeforeParents) {
  // 1 <- 2 <- 3 is never used again, but its root cannot go before its leaves: of three places, the
  // put of 4 takes that of 3, the put of 5 that of 2.
  const Trace trace = TraceOf({{1, 2, 3}, {4}, {5}, {4}, {5}, {1, 2}});
  const HitCount count = OfflineOptimalHits(trace, 3);
  EXPECT_EQ(count.hits, 3u);
}

TEST(OfflineOptimalHits, NoPolicyDoesBetterAndAllRoomIsUnbounded) {
  const Trace trace = Generate(Workload::kChat, {.seed = 5, .requests = 1500});
  const uint64_t unbounded = UnboundedHits(trace).hits;
  EXPECT_EQ(OfflineOptimalHits(trace, 100000).hits, unbounded);
  for (const uint32_t capacity : {500u, 2000u, 6000u}) {
    const uint64_t optimal = OfflineOptimalHits(trace, capacity).hits;
    EXPECT_LE(optimal, unbounded);
    for (const master::PolicyInfo& info : master::EvictionPolicies()) {
      EXPECT_LE(Simulate(trace, capacity, info.name).hits, optimal) << info.name;
    }
  }
  EXPECT_EQ(Simulate(trace, 100000, "cohort").hits, unbounded);
}

TEST(SimulatePolicy, TheDefaultBeatsLruOnGeneratedChat) {
  const Trace trace = Generate(Workload::kChat, {.seed = 6});
  for (const uint32_t capacity : {3000u, 5000u, 10000u}) {
    EXPECT_GT(Simulate(trace, capacity, master::kDefaultEvictionPolicy).hits,
              Simulate(trace, capacity, "lru").hits);
  }
}

TEST(SimulatePolicy, TheDefaultIsNotMuchWorseThanLruOnGeneratedAgents) {
  const Trace trace = Generate(Workload::kAgent, {.seed = 6, .requests = 3000});
  for (const uint32_t capacity : {20000u, 60000u}) {
    EXPECT_GT(Simulate(trace, capacity, master::kDefaultEvictionPolicy).rate(),
              Simulate(trace, capacity, "lru").rate() - 0.02);
  }
}

TEST(SimulatePolicy, AChainLongerThanTheCacheIsRefusedInPart) {
  const HitCount count = Simulate(TraceOf({{1, 2, 3, 4, 5}, {1, 2, 3}}), 3, "lru");
  EXPECT_EQ(count.refused, 2u);
  EXPECT_EQ(count.hits, 3u);
}

TEST(SimulatePolicy, AgreesWithAnObviousLru) {
  // Leaves first by last use, from a plain scan over all blocks; single blocks, so that there are
  // no ties.
  Random random(4);
  Trace trace;
  for (int i = 0; i < 3000; ++i) {
    trace.requests.emplace_back().blocks = {random.Below(1 + random.Below(300))};
  }
  std::map<uint64_t, int> last_use;
  uint64_t hits = 0;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t block = trace.requests[static_cast<size_t>(i)].blocks[0];
    hits += last_use.contains(block);
    last_use[block] = i;
    if (last_use.size() <= 50) continue;
    last_use.erase(std::min_element(last_use.begin(), last_use.end(),
                                    [](auto& a, auto& b) { return a.second < b.second; }));
  }
  EXPECT_EQ(Simulate(trace, 50, "lru").hits, hits);
}

}  // namespace
}  // namespace moonpool::trace
