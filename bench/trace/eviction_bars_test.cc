// The default policy on real chat traffic: bars that a change of eviction must not fall under.
#include <gtest/gtest.h>

#include "bench/trace/ideal.h"
#include "bench/trace/trace_reader.h"
#include "common/testing/status_matchers.h"
#include "master/core/eviction/registry.h"

namespace moonpool::trace {
namespace {

TEST(EvictionBars, TheDefaultPolicyKeepsUpOnChatTraffic) {
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadTrace(CONVERSATION_TRACE));
  EXPECT_EQ(trace.requests.size(), 12031u);
  const HitCount unbounded = UnboundedHits(trace);
  EXPECT_EQ(unbounded.references, 288500u);
  EXPECT_NEAR(unbounded.rate(), 0.366, 0.001);

  // Measured: 0.162, 0.224, 0.301. LRU: 0.112, 0.212, 0.288.
  const struct {
    uint32_t capacity_blocks;
    double bar;
  } bars[] = {{5000, 0.150}, {10000, 0.218}, {20000, 0.294}};
  for (const auto& [capacity_blocks, bar] : bars) {
    master::SlotTable slots;
    ASSERT_OK_AND_ASSIGN(const auto policy,
                         master::MakeEvictionPolicy(master::kDefaultEvictionPolicy, slots));
    const HitCount count = SimulatePolicy(trace, capacity_blocks, *policy);
    EXPECT_EQ(count.refused, 0u);
    EXPECT_GE(count.rate(), bar) << capacity_blocks << " blocks";
    EXPECT_LE(count.rate(), OfflineOptimalHits(trace, capacity_blocks).rate());
    RecordProperty("hit_rate_" + std::to_string(capacity_blocks), std::to_string(count.rate()));
  }
}

}  // namespace
}  // namespace moonpool::trace
