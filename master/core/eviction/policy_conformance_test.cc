// What every eviction policy must do, whatever its order.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/random.h"
#include "master/core/eviction/registry.h"

namespace moonpool::master {
namespace {

uint64_t HashOf(uint64_t key) { return Random(key).Next(); }

class PolicyConformance : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<EvictionPolicy> Make() { return *MakeEvictionPolicy(GetParam(), slots_); }

  SlotTable slots_;
};

// Evicts until nothing is offered; the slots in the order in which they went.
std::vector<SlotIndex> Drain(EvictionPolicy& policy) {
  std::vector<SlotIndex> order;
  while (std::optional<SlotIndex> victim = policy.PickVictim()) {
    policy.OnErase(*victim, HashOf(*victim), EraseCause::kEvicted);
    order.push_back(*victim);
  }
  return order;
}

TEST_P(PolicyConformance, AnswersToItsName) { EXPECT_EQ(Make()->name(), GetParam()); }

TEST_P(PolicyConformance, OffersNothingWhenEmpty) { EXPECT_EQ(Make()->PickVictim(), std::nullopt); }

TEST_P(PolicyConformance, OffersEveryEvictableObjectOnce) {
  auto policy = Make();
  for (SlotIndex slot = 0; slot < 10000; ++slot) {
    policy->OnInsert(slot, HashOf(slot), kNoSlot, true);
    if (slot % 3 == 0) policy->OnAccess(slot / 2);
  }
  const std::vector<SlotIndex> order = Drain(*policy);
  EXPECT_EQ(order.size(), 10000u);
  EXPECT_EQ(std::set<SlotIndex>(order.begin(), order.end()).size(), 10000u);
}

TEST_P(PolicyConformance, AnswersTheSameUntilSomethingChanges) {
  auto policy = Make();
  for (SlotIndex slot = 0; slot < 100; ++slot) {
    policy->OnInsert(slot, HashOf(slot), kNoSlot, true);
    policy->OnAccess(slot / 3);
  }
  EXPECT_EQ(policy->PickVictim(), policy->PickVictim());
}

TEST_P(PolicyConformance, HeldObjectsAreNotOfferedUntilReleased) {
  auto policy = Make();
  policy->OnInsert(0, HashOf(0), kNoSlot, false);
  policy->OnInsert(1, HashOf(1), kNoSlot, true);
  policy->OnInsert(2, HashOf(2), kNoSlot, true);
  policy->SetEvictable(2, false);
  policy->SetEvictable(2, false);
  policy->OnAccess(2);
  EXPECT_EQ(Drain(*policy), std::vector<SlotIndex>{1});
  policy->SetEvictable(0, true);
  policy->SetEvictable(0, true);
  EXPECT_EQ(Drain(*policy), std::vector<SlotIndex>{0});
  policy->SetEvictable(2, true);
  EXPECT_EQ(Drain(*policy), std::vector<SlotIndex>{2});
}

TEST_P(PolicyConformance, HeldObjectsCanBeRemoved) {
  auto policy = Make();
  policy->OnInsert(0, HashOf(0), kNoSlot, true);
  policy->SetEvictable(0, false);
  policy->OnErase(0, HashOf(0), EraseCause::kRemoved);
  EXPECT_EQ(policy->PickVictim(), std::nullopt);
  policy->OnInsert(0, HashOf(7), kNoSlot, true);
  EXPECT_EQ(policy->PickVictim(), 0u);
}

TEST_P(PolicyConformance, PoliciesShareATableWithoutMeeting) {
  auto first = Make();
  auto second = Make();
  for (SlotIndex slot = 0; slot < 1000; ++slot) {
    (slot % 2 == 0 ? *first : *second).OnInsert(slot, HashOf(slot), kNoSlot, true);
  }
  for (SlotIndex slot : Drain(*first)) EXPECT_EQ(slot % 2, 0u);
  EXPECT_EQ(Drain(*second).size(), 500u);
}

// A random history, checked against a model that knows what is live and what is held. Few live
// objects make epochs short, so that counters wrap and old objects meet young ones.
class RandomHistory {
 public:
  RandomHistory(EvictionPolicy& policy, uint64_t seed, SlotIndex slot_count)
      : policy_(policy), random_(seed), objects_(slot_count) {}

  void Step() {
    const SlotIndex slot = AnySlot();
    const Object& object = objects_[slot];
    const uint64_t die = random_.Below(8);
    if (die == 0) {
      Evict();
    } else if (!object.live) {
      Insert(slot);
    } else if (die < 4) {
      policy_.OnAccess(slot);
    } else if (die < 6) {
      SetPinned(slot, !object.pinned);
    } else if (object.children == 0 && random_.OneIn(4)) {
      Erase(slot, EraseCause::kRemoved);
    } else if (random_.OneIn(2)) {
      Evict();
    }
  }

  void ReleaseAllAndDrain() {
    for (SlotIndex slot = 0; slot < objects_.size(); ++slot) {
      if (objects_[slot].live) SetPinned(slot, false);
    }
    while (Evict()) continue;
    for (const Object& object : objects_) EXPECT_FALSE(object.live);
  }

  const std::vector<SlotIndex>& victims() const { return victims_; }

 private:
  struct Object {
    bool live = false;
    bool pinned = false;
    uint64_t key = 0;
    uint32_t children = 0;
    SlotIndex parent = kNoSlot;
    bool evictable() const { return live && !pinned && children == 0; }
  };

  SlotIndex AnySlot() { return static_cast<SlotIndex>(random_.Below(objects_.size())); }

  void Insert(SlotIndex slot) {
    const SlotIndex parent = AnySlot();
    const bool has_parent = objects_[parent].live && random_.OneIn(2);
    objects_[slot] = {.live = true,
                      .pinned = random_.OneIn(8),
                      .key = random_.Below(4 * objects_.size()),
                      .parent = has_parent ? parent : kNoSlot};
    // Both orders happen: the parent is held before its child is live, or right after.
    const bool hold_first = random_.OneIn(2);
    if (has_parent) ++objects_[parent].children;
    if (has_parent && hold_first) policy_.SetEvictable(parent, false);
    policy_.OnInsert(slot, HashOf(objects_[slot].key), objects_[slot].parent,
                     !objects_[slot].pinned);
    if (has_parent && !hold_first) policy_.SetEvictable(parent, false);
    evictable_count_ = Count();
  }

  void SetPinned(SlotIndex slot, bool pinned) {
    objects_[slot].pinned = pinned;
    policy_.SetEvictable(slot, objects_[slot].evictable());
    evictable_count_ = Count();
  }

  bool Evict() {
    const std::optional<SlotIndex> victim = policy_.PickVictim();
    EXPECT_EQ(victim.has_value(), evictable_count_ > 0);
    if (!victim) return false;
    EXPECT_TRUE(objects_[*victim].evictable()) << "slot " << *victim;
    victims_.push_back(*victim);
    Erase(*victim, EraseCause::kEvicted);
    return true;
  }

  void Erase(SlotIndex slot, EraseCause cause) {
    const SlotIndex parent = objects_[slot].parent;
    policy_.OnErase(slot, HashOf(objects_[slot].key), cause);
    objects_[slot] = {};
    if (parent != kNoSlot && --objects_[parent].children == 0) {
      policy_.SetEvictable(parent, objects_[parent].evictable());
    }
    evictable_count_ = Count();
  }

  size_t Count() const {
    size_t count = 0;
    for (const Object& object : objects_) count += object.evictable();
    return count;
  }

  EvictionPolicy& policy_;
  Random random_;
  std::vector<Object> objects_;
  std::vector<SlotIndex> victims_;
  size_t evictable_count_ = 0;
};

TEST_P(PolicyConformance, KeepsItsPromisesOverARandomHistory) {
  for (const SlotIndex slot_count : {3u, 20u, 100u, 400u}) {
    auto policy = Make();
    RandomHistory history(*policy, slot_count, slot_count);
    for (int i = 0; i < 150000 && !HasFailure(); ++i) history.Step();
    history.ReleaseAllAndDrain();
  }
}

TEST_P(PolicyConformance, SameCallsGiveTheSameVictims) {
  auto policy = Make();
  SlotTable other_slots;
  auto twin = *MakeEvictionPolicy(GetParam(), other_slots);
  RandomHistory history(*policy, 1, 200);
  RandomHistory twin_history(*twin, 1, 200);
  for (int i = 0; i < 20000; ++i) {
    history.Step();
    twin_history.Step();
  }
  EXPECT_EQ(history.victims(), twin_history.victims());
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : EvictionPolicies()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, PolicyConformance, testing::ValuesIn(Names()),
                         [](const auto& param) { return param.param; });

TEST(Registry, AnUnknownNameListsTheKnownOnes) {
  SlotTable slots;
  const auto policy = MakeEvictionPolicy("mru", slots);
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(policy.status().message().find("cohort, s3fifo, lru"), absl::string_view::npos);
}

TEST(Registry, TheDefaultExists) {
  SlotTable slots;
  EXPECT_TRUE(MakeEvictionPolicy(kDefaultEvictionPolicy, slots).ok());
}

}  // namespace
}  // namespace moonpool::master
