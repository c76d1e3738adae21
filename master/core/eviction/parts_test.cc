// The parts that policies are made of: list, wheel, ghosts, model.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/random.h"
#include "master/core/eviction/age_wheel.h"
#include "master/core/eviction/ghost_table.h"
#include "master/core/eviction/idle_model.h"
#include "master/core/eviction/slot_list.h"

namespace moonpool::master {
namespace {

std::vector<SlotIndex> FromCold(SlotTable& slots, const SlotList& list) {
  std::vector<SlotIndex> order;
  for (SlotIndex slot = list.cold(); slot != kNoSlot; slot = slots[slot].hotter) {
    order.push_back(slot);
  }
  return order;
}

TEST(SlotList, KeepsItsOrderThroughUnlinkAndSplice) {
  SlotTable slots;
  slots.Ensure(10);
  SlotList old_list;
  SlotList young;
  for (SlotIndex slot : {0u, 1u, 2u}) old_list.PushHot(slots, slot);
  for (SlotIndex slot : {3u, 4u}) young.PushHot(slots, slot);
  young.PushCold(slots, 5);
  old_list.SpliceHot(slots, young);
  EXPECT_TRUE(young.empty());
  EXPECT_EQ(FromCold(slots, old_list), (std::vector<SlotIndex>{0, 1, 2, 5, 3, 4}));
  for (SlotIndex slot : {0u, 4u, 2u}) old_list.Unlink(slots, slot);
  EXPECT_EQ(FromCold(slots, old_list), (std::vector<SlotIndex>{1, 5, 3}));
  for (SlotIndex slot : {1u, 5u, 3u}) old_list.Unlink(slots, slot);
  EXPECT_TRUE(old_list.empty());
}

class AgeWheelTest : public testing::Test {
 protected:
  void LinkHot(SlotIndex slot, uint16_t epoch) {
    slots_.Ensure(slot);
    slots_[slot].epoch = epoch;
    wheel_.LinkHot(slots_, slot, static_cast<uint16_t>(now_ - epoch));
  }
  void AdvanceTo(uint16_t epoch) {
    while (now_ != epoch) wheel_.Advance(slots_, ++now_);
  }
  std::vector<SlotIndex> Drain() {
    std::vector<SlotIndex> order;
    for (SlotIndex slot; (slot = wheel_.Oldest(now_)) != kNoSlot;) {
      wheel_.Unlink(slots_, slot);
      order.push_back(slot);
    }
    return order;
  }

  SlotTable slots_;
  AgeWheel wheel_;
  uint16_t now_ = 0;
};

TEST_F(AgeWheelTest, LatecomersTakeThePlaceOfTheirEpoch) {
  AdvanceTo(70);
  LinkHot(0, 70);
  AdvanceTo(200);
  LinkHot(1, 200);
  LinkHot(2, 100);
  LinkHot(3, 10);
  LinkHot(4, 0);
  EXPECT_EQ(Drain(), (std::vector<SlotIndex>{4, 3, 0, 2, 1}));
}

TEST_F(AgeWheelTest, WhatLeavesTheWheelStaysInOrder) {
  for (uint16_t epoch = 0; epoch < 1000; epoch = static_cast<uint16_t>(epoch + 10)) {
    AdvanceTo(epoch);
    LinkHot(epoch / 10, epoch);
  }
  const std::vector<SlotIndex> order = Drain();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(AgeWheelTest, AnyMemberCanLeaveAtAnyAge) {
  // Spliced and fresh lists side by side, with a stale epoch that names a bucket in use again.
  Random random(1);
  std::vector<bool> linked(300, false);
  size_t count = 0;
  for (int i = 0; i < 100000; ++i) {
    const SlotIndex slot = static_cast<SlotIndex>(random.Below(linked.size()));
    if (linked[slot]) {
      wheel_.Unlink(slots_, slot);
      --count;
    } else {
      LinkHot(slot, static_cast<uint16_t>(now_ - random.Below(400)));
      ++count;
    }
    linked[slot] = !linked[slot];
    if (random.OneIn(3)) AdvanceTo(static_cast<uint16_t>(now_ + 1));
  }
  EXPECT_EQ(Drain().size(), count);
}

TEST(EpochClock, AnEpochIsAShareOfThePopulation) {
  EpochClock clock;
  int epochs = 0;
  for (int i = 0; i < 6400; ++i) epochs += clock.OnInsert(640);
  EXPECT_EQ(epochs, 320);
  EXPECT_EQ(clock.AgeOf(300), 20);
}

TEST(GhostTable, RemembersOnceAndOnlyWhatWasAdded) {
  GhostTable ghosts;
  ghosts.Add(0x123456789abcdef0, {.epoch = 1030, .cohort = 3});
  EXPECT_FALSE(ghosts.Take(0x923456789abcdef0));
  const auto ghost = ghosts.Take(0x123456789abcdef0);
  ASSERT_TRUE(ghost);
  EXPECT_EQ(ghost->epoch, 1030 % GhostTable::kEpochs);
  EXPECT_EQ(ghost->cohort, 3);
  EXPECT_FALSE(ghosts.Take(0x123456789abcdef0));
}

TEST(GhostTable, FollowsThePopulationAndForgetsTheOldest) {
  GhostTable ghosts;
  Random random(1);
  std::vector<uint64_t> keys(40000);
  for (uint64_t& key : keys) key = random.Next();
  size_t live = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    ghosts.Resize(++live);
    EXPECT_LE(ghosts.capacity(), std::max<size_t>(8, live));
    ghosts.Add(keys[i], {});
  }
  for (int i = 0; i < 40000; ++i) ghosts.Add(random.Next(), {});
  for (const uint64_t key : keys) ghosts.Add(key, {});
  int found = 0;
  for (size_t i = keys.size() / 2; i < keys.size(); ++i) found += ghosts.Take(keys[i]).has_value();
  EXPECT_GT(found, 18000);  // nearly all of the last half of a table's worth
  while (live > 0) ghosts.Resize(--live);
  EXPECT_EQ(ghosts.capacity(), 8u);
}

// Feeds `turnovers` of steady traffic: per epoch `lives` begin in a cohort, and the share
// `returning` of them is used again at `age`.
struct Traffic {
  size_t cohort;
  int lives;
  double returning;
  uint32_t age;
};

IdleModel Learn(const std::vector<Traffic>& traffic, double live_count) {
  IdleModel model;
  for (int epoch = 0; epoch < 400; ++epoch) {
    for (const Traffic& part : traffic) {
      for (int i = 0; i < part.lives; ++i) model.OnLifeBegins(part.cohort);
      const int used = static_cast<int>(part.lives * part.returning);
      for (int i = 0; i < used; ++i) model.OnUse(part.cohort, part.age);
    }
    model.OnEpoch(live_count);
  }
  return model;
}

TEST(IdleModel, KnowsNothingAtFirst) {
  const IdleModel model;
  for (size_t cohort = 0; cohort < IdleModel::kCohorts; ++cohort) {
    EXPECT_EQ(model.IdleLimit(cohort), model.IdleLimit(0));
  }
}

TEST(IdleModel, WhatNeverReturnsIsWorthNothing) {
  const IdleModel model = Learn({{1, 100, 0.0, 0}, {2, 20, 0.5, 40}}, 1000);
  EXPECT_EQ(model.IdleLimit(1), 0);
  EXPECT_GT(model.IdleLimit(2), 40);
}

TEST(IdleModel, LateReturnsAreWaitedForWhereThereIsRoom) {
  // Cohort 1 returns at 60 epochs, cohort 2 at 10. Room for 20 x 100 object-epochs per epoch is
  // enough for both; room for 200 only for the early ones.
  const std::vector<Traffic> traffic = {{1, 20, 0.5, 60}, {2, 20, 0.5, 10}};
  const IdleModel roomy = Learn(traffic, 2000);
  EXPECT_GT(roomy.IdleLimit(1), 60);
  EXPECT_GT(roomy.IdleLimit(2), 10);
  const IdleModel tight = Learn(traffic, 200);
  EXPECT_LT(tight.IdleLimit(1), 10);
  EXPECT_GT(tight.IdleLimit(2), 9);
}

TEST(IdleModel, FollowsAChangeWithinAFewTurnovers) {
  IdleModel model = Learn({{1, 100, 0.0, 0}, {2, 20, 0.5, 40}}, 1000);
  for (int epoch = 0; epoch < 32 * 10; ++epoch) {
    for (int i = 0; i < 100; ++i) model.OnLifeBegins(1);
    for (int i = 0; i < 50; ++i) model.OnUse(1, 5);
    model.OnEpoch(1000);
  }
  EXPECT_GT(model.IdleLimit(1), 5);
}

}  // namespace
}  // namespace moonpool::master
