// What each policy promises about its order.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "common/random.h"
#include "master/core/eviction/cohort.h"
#include "master/core/eviction/lru.h"
#include "master/core/eviction/s3fifo.h"

namespace moonpool::master {
namespace {

// A cache of single objects (no chains) on top of a policy.
class FlatCache {
 public:
  FlatCache(EvictionPolicy& policy, SlotIndex capacity) : policy_(policy) {
    for (SlotIndex slot = capacity; slot-- > 0;) free_.push_back(slot);
    keys_.resize(capacity);
  }

  // True when the key was there. Puts it otherwise.
  bool Get(uint64_t key) {
    if (auto it = where_.find(key); it != where_.end()) {
      policy_.OnAccess(it->second);
      return true;
    }
    if (free_.empty()) {
      const SlotIndex victim = *policy_.PickVictim();
      policy_.OnErase(victim, Random(keys_[victim]).Next(), EraseCause::kEvicted);
      where_.erase(keys_[victim]);
      free_.push_back(victim);
    }
    const SlotIndex slot = free_.back();
    free_.pop_back();
    keys_[slot] = key;
    where_[key] = slot;
    policy_.OnInsert(slot, Random(key).Next(), kNoSlot, true);
    return false;
  }

 private:
  EvictionPolicy& policy_;
  std::vector<SlotIndex> free_;
  std::vector<uint64_t> keys_;
  std::map<uint64_t, SlotIndex> where_;
};

// 200 keys used over and over between keys that never come back. Hits among the former.
double HotHitRateUnderScan(EvictionPolicy& policy) {
  FlatCache cache(policy, 1000);
  Random random(1);
  uint64_t scanned = 1000000;
  int hits = 0;
  constexpr int kRounds = 100000;
  for (int i = 0; i < kRounds; ++i) {
    hits += cache.Get(random.Below(200));
    for (int k = 0; k < 10; ++k) cache.Get(scanned++);
  }
  return static_cast<double>(hits) / kRounds;
}

TEST(Lru, EvictsInOrderOfLastUse) {
  SlotTable slots;
  LruPolicy policy(slots);
  for (SlotIndex slot = 0; slot < 4; ++slot) policy.OnInsert(slot, slot, kNoSlot, true);
  policy.OnAccess(0);
  policy.OnAccess(2);
  std::vector<SlotIndex> order;
  while (auto victim = policy.PickVictim()) {
    order.push_back(*victim);
    policy.OnErase(*victim, *victim, EraseCause::kEvicted);
  }
  EXPECT_EQ(order, (std::vector<SlotIndex>{1, 3, 0, 2}));
}

TEST(Lru, AReleasedObjectTakesThePlaceOfItsLastUse) {
  SlotTable slots;
  LruPolicy policy(slots);
  policy.OnInsert(0, 0, kNoSlot, true);
  policy.OnInsert(1, 1, kNoSlot, false);
  policy.OnInsert(2, 2, kNoSlot, true);
  policy.SetEvictable(1, true);
  EXPECT_EQ(policy.PickVictim(), 0u);
  policy.OnErase(0, 0, EraseCause::kEvicted);
  EXPECT_EQ(policy.PickVictim(), 1u);
}

TEST(Lru, AScanTakesAll) {
  SlotTable slots;
  LruPolicy policy(slots);
  EXPECT_LT(HotHitRateUnderScan(policy), 0.5);
}

TEST(S3Fifo, SurvivesAScan) {
  SlotTable slots;
  S3FifoPolicy policy(slots);
  EXPECT_GT(HotHitRateUnderScan(policy), 0.95);
}

TEST(Cohort, SurvivesAScan) {
  SlotTable slots;
  CohortPolicy policy(slots);
  EXPECT_GT(HotHitRateUnderScan(policy), 0.95);
}

TEST(Cohort, UsesThatComeTooLateForTheNewAreLearnedFromGhosts) {
  // Every key comes twice in a row, 1,200 keys later, then ten times more at short distance: an LRU
  // of 1,000 loses all the second uses. Ghosts tell that a key returned, and it is kept from then
  // on.
  SlotTable slots;
  CohortPolicy policy(slots);
  FlatCache cache(policy, 1000);
  Random random(2);
  std::deque<uint64_t> regulars;
  int hits = 0;
  for (uint64_t key = 0; key < 40000; ++key) {
    cache.Get(key);
    if (key >= 1200 && (key - 1200) % 20 == 0) regulars.push_back(key - 1200);
    if (regulars.size() > 50) regulars.pop_front();
    if (!regulars.empty()) hits += cache.Get(regulars[random.Below(regulars.size())]);
  }
  EXPECT_GT(hits, 30000);
}

TEST(Cohort, APartialLastBlockGoesBeforeTheChainsOfOthers) {
  SlotTable slots;
  CohortPolicy policy(slots);
  // Chains of three: 0 <- 1 <- 2, 3 <- 4 <- 5, ... The last block of each never has a child, and
  // only the others are used again, so the model learns that last blocks are worth nothing.
  Random random(3);
  std::vector<SlotIndex> free_slots;
  std::vector<SlotIndex> parent(3000, kNoSlot);
  std::vector<int> children(3000, 0);
  for (SlotIndex slot = 3000; slot-- > 0;) free_slots.push_back(slot);
  std::deque<SlotIndex> middles;
  int last_blocks = 0;
  int evictions = 0;
  const auto evict = [&] {
    const SlotIndex victim = *policy.PickVictim();
    policy.OnErase(victim, victim, EraseCause::kEvicted);
    last_blocks += std::find(middles.begin(), middles.end(), parent[victim]) != middles.end();
    std::erase(middles, victim);
    free_slots.push_back(victim);
    if (parent[victim] != kNoSlot && --children[parent[victim]] == 0) {
      policy.SetEvictable(parent[victim], true);
    }
    ++evictions;
  };
  for (int chain = 0; chain < 6000; ++chain) {
    SlotIndex previous = kNoSlot;
    for (int depth = 0; depth < 3; ++depth) {
      if (previous != kNoSlot && children[previous]++ == 0) policy.SetEvictable(previous, false);
      if (free_slots.empty()) evict();
      const SlotIndex slot = free_slots.back();
      free_slots.pop_back();
      parent[slot] = previous;
      policy.OnInsert(slot, random.Next(), previous, true);
      if (depth == 1) middles.push_back(slot);
      previous = slot;
    }
    const SlotIndex used = middles[random.Below(middles.size())];
    policy.OnAccess(used);
    if (parent[used] != kNoSlot) policy.OnAccess(parent[used]);
  }
  EXPECT_GT(last_blocks * 3, evictions);
  EXPECT_LT(middles.size() * 3, 2u * 3000u);
  EXPECT_GT(middles.size() * 2, 2800u);  // nearly all room is heads and middles
}

}  // namespace
}  // namespace moonpool::master
