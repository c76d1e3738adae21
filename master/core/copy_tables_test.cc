// What copies are kept in: the table, the pace, the queue, and how heat is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "common/random.h"
#include "master/core/copy_pacer.h"
#include "master/core/copy_table.h"
#include "master/core/doubted_sources.h"
#include "master/core/eviction_pauses.h"
#include "master/core/heat.h"
#include "master/core/lost_parts.h"
#include "master/core/repair_queue.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;

const absl::Time kStart = absl::UnixEpoch();

ReplicaCopy TwoParts(SlotIndex slot, absl::Time deadline) {
  ReplicaCopy copy{.slot = slot, .generation = Generation{7}, .deadline = deadline};
  for (uint32_t i = 0; i < 2; ++i) {
    StoredPart to;
    to.length = 100;
    to.node = static_cast<NodeIndex>(i + 1);
    copy.parts.push_back(CopyPart{.to = to, .from = 9, .claim = Generation{slot * 10 + i}});
  }
  return copy;
}

TEST(CopyTable, ACopyIsWholeWhenAllItsPartsAreSealed) {
  CopyTable table;
  table.Start(TwoParts(1, kStart));
  EXPECT_EQ(table.Find(1)->bytes(), 200u);
  EXPECT_FALSE(table.MarkSealed(Generation{11}));
  EXPECT_FALSE(table.MarkSealed(Generation{11})) << "twice the same one";
  EXPECT_TRUE(table.AddsUp());
  EXPECT_TRUE(table.MarkSealed(Generation{10}));
  EXPECT_EQ(table.Take(1).parts.size(), 2u);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.AddsUp());
}

TEST(CopyTable, FindsCopiesByClaimTargetAndDeadline) {
  CopyTable table;
  table.Start(TwoParts(1, kStart + absl::Seconds(2)));
  table.Start(TwoParts(2, kStart + absl::Seconds(1)));
  EXPECT_EQ(table.FindClaim(Generation{20}), 2u);
  EXPECT_EQ(table.FindClaim(Generation{22}), std::nullopt);
  EXPECT_EQ(table.OldestClaim(), Generation{10});
  EXPECT_THAT(table.To(2), ElementsAre(1u, 2u));
  EXPECT_THAT(table.To(9), ElementsAre()) << "it gives, it does not take";
  EXPECT_EQ(table.Due(kStart), std::nullopt);
  EXPECT_EQ(table.Due(kStart + absl::Seconds(1)), 2u);
  table.Take(2);
  EXPECT_EQ(table.Due(kStart + absl::Seconds(1)), std::nullopt);
  table.Take(1);
  EXPECT_EQ(table.OldestClaim(), std::nullopt);
}

TEST(CopyPacer, ANodeHasSoManyPartsInFlight) {
  CopyPacer pacer(1 << 30, 2);
  EXPECT_TRUE(pacer.HasRoom(1, kStart));
  pacer.Begin(1, 10);
  pacer.Begin(1, 10);
  EXPECT_FALSE(pacer.HasRoom(1, kStart));
  EXPECT_TRUE(pacer.HasRoom(2, kStart));
  pacer.End(1);
  EXPECT_TRUE(pacer.HasRoom(1, kStart));
  EXPECT_EQ(pacer.InFlight(1), 1u);
}

TEST(CopyPacer, AllPartsOfACopyHaveToFitIntoWhatANodeHolds) {
  CopyPacer pacer(1 << 30, 64);
  EXPECT_TRUE(pacer.HasRoom(1, kStart, kMaxPartsPerReplica));
  pacer.Begin(1, 10);
  EXPECT_FALSE(pacer.HasRoom(1, kStart, kMaxPartsPerReplica));
  EXPECT_TRUE(pacer.HasRoom(1, kStart, 100)) << "more than are begun one by one";
  for (int i = 0; i < 63; ++i) pacer.Begin(1, 10);
  EXPECT_FALSE(pacer.HasRoom(1, kStart));
}

TEST(CopyPacer, BytesGoAtTheRateHoweverLargeTheyAre) {
  CopyPacer pacer(1000, 100);
  ASSERT_TRUE(pacer.HasRoom(1, kStart));
  pacer.Begin(1, 5000);
  // The burst was 100: the debt of 4900 is paid after 4.9 seconds.
  EXPECT_FALSE(pacer.HasRoom(1, kStart + absl::Milliseconds(4890)));
  EXPECT_TRUE(pacer.HasRoom(1, kStart + absl::Milliseconds(4910)));
  // What is not used is not saved up.
  absl::Time now = kStart + absl::Hours(1);
  uint64_t taken = 0;
  while (pacer.HasRoom(1, now)) {
    pacer.Begin(1, 10);
    taken += 10;
  }
  EXPECT_EQ(taken, 100u);
}

TEST(DoubtedSources, AreThoseOfOneGenerationForAWhile) {
  DoubtedSources doubted(absl::Seconds(2));
  doubted.Add(1, Generation{7}, 3, kStart);
  EXPECT_TRUE(doubted.Contains(1, Generation{7}, 3, kStart + absl::Seconds(1)));
  EXPECT_FALSE(doubted.Contains(1, Generation{8}, 3, kStart));
  EXPECT_FALSE(doubted.Contains(1, Generation{7}, 4, kStart));
  EXPECT_FALSE(doubted.Contains(1, Generation{7}, 3, kStart + absl::Seconds(2)));
  // A renewed one lasts as long as a new one.
  doubted.Add(1, Generation{7}, 3, kStart + absl::Seconds(1));
  doubted.Add(2, Generation{7}, 3, kStart + absl::Seconds(2));
  EXPECT_TRUE(doubted.Contains(1, Generation{7}, 3, kStart + absl::Seconds(2)));
  doubted.Add(3, Generation{7}, 3, kStart + absl::Seconds(9));
  EXPECT_EQ(doubted.size(), 1u);
}

TEST(DoubtedSources, TheOldestIsForgottenForANewOne) {
  DoubtedSources doubted(absl::Seconds(2));
  for (SlotIndex slot = 0; slot <= DoubtedSources::kMax; ++slot) {
    doubted.Add(slot, Generation{7}, 3, kStart);
  }
  EXPECT_EQ(doubted.size(), DoubtedSources::kMax);
  EXPECT_FALSE(doubted.Contains(0, Generation{7}, 3, kStart));
  EXPECT_TRUE(doubted.Contains(1, Generation{7}, 3, kStart));
}

TEST(EvictionPauses, GrowWithEachSearchInVain) {
  EvictionPauses pauses(absl::Seconds(1), absl::Seconds(3));
  absl::Time now = kStart;
  EXPECT_FALSE(pauses.IsPaused(1, 1000, now));
  for (const int seconds : {1, 2, 3, 3}) {
    pauses.Extend(1, 1000, now);
    now += absl::Seconds(seconds);
    EXPECT_TRUE(pauses.IsPaused(1, 1000, now - absl::Milliseconds(1)));
    EXPECT_FALSE(pauses.IsPaused(1, 1000, now));
  }
  // What was so long ago does not count.
  now += absl::Seconds(3);
  pauses.Extend(1, 1000, now);
  EXPECT_FALSE(pauses.IsPaused(1, 1000, now + absl::Seconds(1)));
}

TEST(EvictionPauses, ConcernHolesAsLargeOnOneNode) {
  EvictionPauses pauses(absl::Seconds(1), absl::Seconds(3));
  pauses.Extend(1, 1000, kStart);
  EXPECT_TRUE(pauses.IsPaused(1, 1 << 20, kStart));
  EXPECT_FALSE(pauses.IsPaused(1, 100, kStart));
  EXPECT_FALSE(pauses.IsPaused(2, 1000, kStart));
  pauses.End(1, 100);
  EXPECT_TRUE(pauses.IsPaused(1, 1000, kStart));
  pauses.End(1, 5000);
  EXPECT_FALSE(pauses.IsPaused(1, 1000, kStart)) << "there was a larger one";
}

std::vector<SlotIndex> TakeAll(RepairQueue& queue) {
  std::vector<SlotIndex> order;
  while (const auto turn = queue.Take()) order.push_back(turn->slot);
  return order;
}

TEST(RepairQueue, ServesByRankAndThenByAge) {
  RepairQueue queue;
  queue.Add(1, kMoreLeftColdRank);
  queue.Add(2, kTwoLeftColdRank);
  queue.Add(3, kMoreLeftColdRank);
  queue.Add(4, kOneLeftHotRank);
  EXPECT_THAT(TakeAll(queue), ElementsAre(4u, 2u, 1u, 3u));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(RepairQueue, AnObjectStandsInItOnceAtItsHighestRank) {
  RepairQueue queue;
  queue.Add(1, kMoreLeftColdRank);
  queue.Add(2, kMoreLeftColdRank);
  queue.Add(2, kOneLeftColdRank);
  queue.Add(2, kTrimRank);
  EXPECT_EQ(queue.CountOf(kMoreLeftColdRank), 1u);
  EXPECT_THAT(TakeAll(queue), ElementsAre(2u, 1u));
}

TEST(RepairQueue, WhatIsPutBackIsTheNextOfItsRank) {
  RepairQueue queue;
  queue.Add(1, kMoreLeftColdRank);
  queue.Add(2, kMoreLeftColdRank);
  queue.PutBack(*queue.Take());
  queue.Add(3, kMoreLeftHotRank);
  EXPECT_THAT(TakeAll(queue), ElementsAre(3u, 1u, 2u));
  queue.PutBack({1, kMoreLeftColdRank});
  queue.Add(2, kMoreLeftColdRank);
  EXPECT_THAT(TakeAll(queue), ElementsAre(1u, 2u));
}

TEST(RepairQueue, SomeWaitForTheirTimeAndOthersForAnOccasion) {
  RepairQueue queue;
  queue.Postpone({1, kTwoLeftHotRank}, kStart + absl::Seconds(1));
  queue.PutToSleep({2, kOneLeftColdRank});
  queue.PutToSleep({3, kOneLeftColdRank});
  EXPECT_THAT(TakeAll(queue), ElementsAre());
  queue.Wake(kStart, 10);
  EXPECT_THAT(TakeAll(queue), ElementsAre());
  queue.Wake(kStart + absl::Seconds(1), 10);
  EXPECT_THAT(TakeAll(queue), ElementsAre(1u));
  queue.Add(4, kOneLeftColdRank);
  queue.WakeAll();
  EXPECT_THAT(TakeAll(queue), ElementsAre(4u, 2u, 3u));
  // One night is not the next.
  queue.PutToSleep({2, kOneLeftColdRank});
  EXPECT_THAT(TakeAll(queue), ElementsAre());
  EXPECT_EQ(queue.size(), 1u);
}

TEST(RepairQueue, WhatHasChangedIsServedAtOnce) {
  RepairQueue queue;
  queue.Postpone({1, kTwoLeftHotRank}, kStart + absl::Hours(1));
  queue.PutToSleep({2, kTwoLeftHotRank});
  queue.Add(1, kMoreLeftHotRank);
  queue.Add(2, kMoreLeftHotRank);
  EXPECT_EQ(queue.waiting(), 0u);
  EXPECT_THAT(TakeAll(queue), ElementsAre(1u, 2u));
}

TEST(RepairQueue, RemovesAndDelaysFromAnywhere) {
  RepairQueue queue;
  for (SlotIndex slot = 1; slot <= 5; ++slot) queue.Add(slot, kTwoLeftColdRank);
  queue.Remove(3);
  queue.Remove(1);
  queue.Remove(5);
  queue.Remove(5);
  queue.Delay(2, kStart);
  EXPECT_THAT(TakeAll(queue), ElementsAre(4u));
  queue.Wake(kStart, 10);
  queue.PutToSleep({6, kOneLeftHotRank});
  queue.Remove(6);
  EXPECT_EQ(queue.CountOf(kTwoLeftColdRank), 1u);
  EXPECT_THAT(TakeAll(queue), ElementsAre(2u));
}

TEST(RepairQueue, MemoryGoesBackWhenObjectsLeave) {
  RepairQueue queue;
  for (SlotIndex slot = 0; slot < 10'000; ++slot) queue.Add(slot, kTrimRank);
  EXPECT_LE(queue.bytes(), 10'000 * 34u);
  for (SlotIndex slot = 0; slot < 10'000; ++slot) queue.Remove(slot);
  EXPECT_EQ(queue.bytes(), 0u);
  queue.Postpone({1 << 20, kTrimRank}, kStart);
  EXPECT_LE(queue.bytes(), 20'000u);
}

TEST(RepairQueue, RandomStepsAgreeWithAPlainModel) {
  Random random(5);
  RepairQueue queue;
  std::set<SlotIndex> there;
  for (int step = 0; step < 20000; ++step) {
    const auto slot = static_cast<SlotIndex>(random.Below(50));
    const auto rank = static_cast<RepairRank>(random.Below(kRepairRanks));
    switch (random.Below(6)) {
      case 0:
      case 1: queue.Add(slot, rank), there.insert(slot); break;
      case 2: queue.Remove(slot), there.erase(slot); break;
      case 3:
        if (there.contains(slot)) queue.Delay(slot, kStart + absl::Seconds(random.Below(9)));
        break;
      case 4:
        if (const auto turn = queue.Take()) {
          ASSERT_TRUE(there.contains(turn->slot));
          random.OneIn(2) ? queue.PutToSleep(*turn)
                          : (void)(there.erase(turn->slot), queue.Remove(turn->slot));
        }
        break;
      default: random.OneIn(2) ? queue.WakeAll() : queue.Wake(kStart + absl::Seconds(5), 3);
    }
    ASSERT_EQ(queue.size(), there.size());
  }
  queue.WakeAll();
  queue.Wake(kStart + absl::Seconds(9), 100);
  EXPECT_EQ(TakeAll(queue).size(), there.size());
}

TEST(Heat, AnObjectIsHotWhenItIsReadOftenWithinAWindow) {
  const HeatScale scale(10, absl::Seconds(1));
  Random random(1);
  uint8_t heat = 0;
  for (int i = 0; i < 9; ++i) heat = scale.AfterRead(heat, absl::Seconds(5), random);
  EXPECT_FALSE(scale.IsHot(heat, absl::Seconds(5)));
  heat = scale.AfterRead(heat, absl::Seconds(5), random);
  EXPECT_TRUE(scale.IsHot(heat, absl::Seconds(5)));
  EXPECT_EQ(scale.WindowsSince(heat, absl::Seconds(8)), 3u);
  EXPECT_FALSE(scale.IsHot(heat, absl::Seconds(8)));
}

TEST(Heat, ReadsOfLongAgoCountHalfAndThenNothing) {
  const HeatScale scale(10, absl::Seconds(1));
  Random random(1);
  uint8_t heat = 0;
  for (int i = 0; i < 8; ++i) heat = scale.AfterRead(heat, absl::Seconds(5), random);
  uint8_t next = heat;
  for (int i = 0; i < 6; ++i) next = scale.AfterRead(next, absl::Seconds(6), random);
  EXPECT_TRUE(scale.IsHot(next, absl::Seconds(6)));
  for (int i = 0; i < 9; ++i) heat = scale.AfterRead(heat, absl::Seconds(7), random);
  EXPECT_FALSE(scale.IsHot(heat, absl::Seconds(7)));
}

TEST(Heat, ManyReadsAreCountedByChance) {
  const HeatScale scale(1200, absl::Seconds(10));
  Random random(1);
  uint64_t needed = 0;
  for (int round = 0; round < 200; ++round) {
    for (uint8_t heat = 0; !scale.IsHot(heat, absl::Seconds(1)); ++needed) {
      heat = scale.AfterRead(heat, absl::Seconds(1), random);
    }
  }
  EXPECT_NEAR(static_cast<double>(needed) / 200, 1200, 120);
}

TEST(Heat, WhatWasNeverReadIsCold) {
  const HeatScale scale(10, absl::Seconds(1));
  EXPECT_EQ(scale.WindowsSince(0, absl::ZeroDuration()), 15u);
}

TEST(LostParts, AWalkLooksForWhatWasThereWhenItBegan) {
  LostParts lost;
  const LostPart first[] = {{Generation{5}, {SegmentId{0}, 640, 64}}};
  const LostPart second[] = {{Generation{6}, {SegmentId{1}, 640, 64}}};
  ASSERT_TRUE(lost.Add(first));
  size_t position = 0;
  ASSERT_TRUE(lost.Next(2, &position));
  EXPECT_EQ(position, 1u);
  ASSERT_TRUE(lost.Add(second));
  EXPECT_TRUE(lost.Contains(0, 640, Generation{5}));
  EXPECT_FALSE(lost.Contains(0, 640, Generation{4}));
  EXPECT_FALSE(lost.Contains(1, 640, Generation{6})) << "the next walk's";
  ASSERT_TRUE(lost.Next(2, &position));
  EXPECT_EQ(position, 0u);
  ASSERT_TRUE(lost.Next(3, &position));
  EXPECT_EQ(position, 2u);
  EXPECT_TRUE(lost.Contains(1, 640, Generation{6}));
  // Parts may leave the node meanwhile, all of them too.
  EXPECT_FALSE(lost.Next(0, &position));
}

}  // namespace
}  // namespace moonpool::master
