// Copies in a full pool: what goes for them, how much, and what does not.
#include <string>
#include <utility>

#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;

const PutArguments kTwice = {.replicas = 2};

std::string Key(int i) { return absl::StrCat("key", i); }

// Every second one of these is leased, so that whatever else goes leaves no large hole.
void FillWithHeld(CopyPool& pool, int blocks) {
  for (int i = 0; i < blocks; ++i) pool.PutSealed(absl::StrCat("small", i), kBlockPayload);
  for (int i = 0; i < blocks; i += 2) {
    ASSERT_EQ(pool.Get(absl::StrCat("small", i), absl::Hours(1)).location.lease, absl::Hours(1));
  }
}

TEST(Room, AFullPoolMakesRoomForWhatIsHotterThanItsColdest) {
  CopyPool pool;
  pool.AddNodes(2, 10 * kBlock);
  for (int i = 0; i < 5; ++i) pool.PutSealed(Key(i), kBlockPayload, kTwice);
  pool.AddNodes(1, 10 * kBlock);
  for (int i = 0; i < 20; ++i) pool.PutSealed(absl::StrCat("cold", i), kBlockPayload);
  // Whatever the policy makes of it: these were used, and often.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 5; ++i) pool.Get(Key(i));
  }
  pool.Lose(*pool.nodes[1]);
  pool.Settle();
  uint32_t whole = 0;
  for (int i = 0; i < 5; ++i) whole += pool.Holders(Key(i)).size() == 2 ? 1 : 0;
  EXPECT_EQ(whole, 5u);
  EXPECT_GT(pool.Status().totals.evicted, 0u);
}

TEST(Room, TheColdestObjectEvictsNothing) {
  CopyPool lru({.eviction_policy = "lru"});
  lru.AddNodes(2, 10 * kBlock);
  lru.PutSealed("coldest", kBlockPayload, kTwice);
  lru.AddNodes(1, 10 * kBlock);
  for (int i = 0; i < 28; ++i) lru.PutSealed(Key(i), kBlockPayload);
  const uint64_t before = lru.Status().totals.evicted;
  lru.Lose(*lru.nodes[lru.Holders("coldest")[0] == "n0" ? 0 : 1]);
  lru.Settle();
  EXPECT_EQ(lru.Status().totals.evicted, before);
  EXPECT_EQ(lru.Status().short_objects, 1u);
}

TEST(Room, WhatFindsNoHoleEvictsLessAndLess) {
  CopyPool tight({.eviction_policy = "lru", .max_lease = absl::Hours(1), .leased_fraction = 1.0});
  tight.AddNodes(2, 16 * kBlock);
  tight.PutSealed("large", 16 * kBlockPayload, kTwice);
  tight.AddNodes(1, 1000 * kBlock);
  FillWithHeld(tight, 1000);
  tight.Get("large");
  ASSERT_EQ(tight.Status().totals.evicted, 0u);
  tight.Lose(*tight.nodes[1]);
  // Twice its bytes after 0, 5, 15, 35 and 75 seconds.
  tight.Settle(absl::Minutes(2));
  EXPECT_EQ(tight.Status().short_objects, 1u);
  EXPECT_GE(tight.Status().totals.evicted, 32u);
  EXPECT_LE(tight.Status().totals.evicted, 5 * 32u);
}

TEST(Room, WhatOneCopyHasLearnedOfANodeHoldsForOthers) {
  CopyPool tight({.eviction_policy = "lru", .max_lease = absl::Hours(1), .leased_fraction = 1.0});
  tight.AddNodes(2, 160 * kBlock);
  for (int i = 0; i < 10; ++i) tight.PutSealed(Key(i), 16 * kBlockPayload, kTwice);
  tight.AddNodes(1, 1000 * kBlock);
  FillWithHeld(tight, 1000);
  for (int i = 0; i < 10; ++i) tight.Get(Key(i));
  tight.Lose(*tight.nodes[1]);
  tight.Settle(absl::Seconds(3));
  EXPECT_EQ(tight.Status().short_objects, 10u);
  EXPECT_LE(tight.Status().totals.evicted, 32u);
}

TEST(Room, WhatGoesElsewhereIsNoProgress) {
  CopyPool lru({.eviction_policy = "lru", .max_lease = absl::Hours(1), .leased_fraction = 1.0});
  lru.AddNodes(2, 200 * kBlock);
  lru.PutSealed("short", kBlockPayload, kTwice);
  lru.Disconnect(*lru.nodes[1]);
  for (int i = 0; i < 199; ++i) lru.PutSealed(absl::StrCat("cold", i), kBlockPayload);
  lru.Connect(*lru.nodes[1]);
  lru.AddNodes(1, 10 * kBlock);
  lru.Disconnect(*lru.nodes[1]);
  for (int i = 0; i < 10; ++i) {
    lru.PutSealed(Key(i), kBlockPayload);
    lru.Get(Key(i), absl::Hours(1));
  }
  lru.Get("short");
  const uint64_t before = lru.Status().totals.evicted;
  lru.Advance(absl::Seconds(6));
  lru.Settle(absl::Minutes(1));
  EXPECT_EQ(lru.Status().short_objects, 1u);
  EXPECT_LE(lru.Status().totals.evicted - before, 4 * 4u);
}

// Copies begin when others end, and with that there is little time for each.
TEST(Room, WhatTakesManyEvictionsIsLeftToTheNextTick) {
  CopyPool racks({.eviction_policy = "lru", .copies_per_node = 1});
  for (const auto& [name, rack] : {std::pair("a", "r1"), std::pair("b", "r2")}) {
    racks.Join(name, 100 * kBlock, "", rack);
  }
  for (int i = 0; i < 4; ++i) racks.PutSealed(Key(i), 8 * kBlockPayload, kTwice);
  racks.Disconnect(*racks.nodes[0]);
  racks.Disconnect(*racks.nodes[1]);
  racks.Join("c", 100 * kBlock, "", "r2");
  for (int i = 0; i < 100; ++i) racks.PutSealed(absl::StrCat("cold", i), kBlockPayload);
  racks.Join("beside", 100 * kBlock, "", "r1");
  racks.Connect(*racks.nodes[0]);
  for (int i = 0; i < 4; ++i) racks.Get(Key(i));
  racks.Advance(absl::Seconds(6));
  racks.Settle();
  for (int i = 0; i < 4; ++i) EXPECT_THAT(racks.Holders(Key(i)), ElementsAre("a", "c")) << i;
  EXPECT_LE(racks.Status().totals.evicted, 32u);
}

}  // namespace
}  // namespace moonpool::master
