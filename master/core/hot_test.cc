// Objects that are read a lot have more replicas, as long as they are.
#include <string>

#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

CoreOptions Eager() {
  return {.hot_reads = 10, .hot_window = absl::Seconds(1), .hot_max_replicas = 2};
}

void Read(CopyPool& pool, const std::string& key, int times) {
  for (int i = 0; i < times; ++i) ASSERT_THAT(pool.Get(key).status, IsOk());
}

TEST(Hot, AnObjectThatIsReadALotGetsReplicasAndLosesThemAgain) {
  CopyPool pool(Eager());
  pool.AddNodes(4, 100 * kBlock);
  pool.PutSealed("hot", 10);
  pool.PutSealed("warm", 10);
  Read(pool, "warm", 9);
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  EXPECT_THAT(pool.Holders("hot"), SizeIs(2));
  EXPECT_THAT(pool.Holders("warm"), SizeIs(1));
  // Still hot a window later: one more. There are no more than so many.
  for (int i = 0; i < 5; ++i) {
    Read(pool, "hot", 15);
    pool.Settle(absl::Seconds(1));
  }
  EXPECT_THAT(pool.Holders("hot"), SizeIs(3));
  pool.ExpectReadable("hot");
  pool.Settle(absl::Seconds(10));
  EXPECT_THAT(pool.Holders("hot"), SizeIs(1));
  pool.ExpectReadable("hot");
  EXPECT_EQ(pool.Status().short_objects, 0u);
}

TEST(Hot, ReadsThroughKnownLocationsCount) {
  CopyPool pool(Eager());
  pool.AddNodes(2, 100 * kBlock);
  const Grant grant = pool.PutSealed("hot", 10);
  const std::vector<Touch> touched(10, Touch{grant.handle, grant.generation});
  Caller caller = pool.Me();
  caller.touched = touched;
  ASSERT_THAT(pool.core.Exists(caller, {}, pool.now), IsOk());
  pool.Settle(absl::Milliseconds(100));
  EXPECT_THAT(pool.Holders("hot"), SizeIs(2));
}

TEST(Hot, ItCanBeTurnedOff) {
  CoreOptions options = Eager();
  options.hot_max_replicas = 0;
  CopyPool pool(options);
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("hot", 10);
  Read(pool, "hot", 100);
  pool.Settle(absl::Milliseconds(100));
  EXPECT_THAT(pool.Holders("hot"), SizeIs(1));
}

TEST(Hot, WhatIsHotNoMoreGoesBeforeAnythingIsEvicted) {
  CopyPool pool(Eager());
  pool.AddNodes(2, 10 * kBlock);
  pool.PutSealed("hot", kBlockPayload);
  for (int i = 0; i < 18; ++i) pool.PutSealed(absl::StrCat("k", i), kBlockPayload);
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  ASSERT_THAT(pool.Holders("hot"), SizeIs(2));
  pool.Advance(absl::Seconds(2));
  ASSERT_THAT(pool.Holders("hot"), SizeIs(2)) << "it has not been cold for long enough";
  ASSERT_THAT(pool.Put("new", kBlockPayload), IsOk());
  EXPECT_THAT(pool.Holders("hot"), SizeIs(1));
  EXPECT_EQ(pool.Status().totals.evicted, 0u);
  pool.Settle();
}

TEST(Hot, AFullPoolGivesAsMuchAsTheReplicaTakesAndNoMore) {
  CoreOptions options = Eager();
  options.eviction_policy = "lru";
  options.hot_max_replicas = 1;
  CopyPool pool(options);
  pool.AddNodes(1, 16 * kBlock);
  pool.PutSealed("small", kBlockPayload);
  pool.PutSealed("large", 15 * kBlockPayload);
  pool.AddNodes(1, 1000 * kBlock);
  for (int i = 0; i < 1000; ++i) pool.PutSealed(absl::StrCat("k", i), kBlockPayload);
  // Of two neighbours one is used, so there are holes of one block at first.
  for (int i = 0; i < 1000; i += 2) pool.Get(absl::StrCat("k", i));
  ASSERT_EQ(pool.Status().totals.evicted, 0u);
  for (int second = 0; second < 4; ++second) {
    Read(pool, "small", 15);
    Read(pool, "large", 15);
    pool.Settle(absl::Seconds(1));
  }
  EXPECT_THAT(pool.Holders("small"), SizeIs(2));
  EXPECT_THAT(pool.Holders("large"), SizeIs(1));
  EXPECT_LE(pool.Status().totals.evicted, 20u);
}

TEST(Hot, TheOnlyReplicaThatCanBeReadStaysThoughItsNodeIsDrained) {
  CopyPool pool(Eager());
  pool.AddNodes(2, 10 * kBlock);
  const Grant grant = pool.PutSealed("hot", kBlockPayload);
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  ASSERT_THAT(pool.Holders("hot"), SizeIs(2));
  pool.AddNodes(1, 2 * kBlock);
  for (int i = 0; i < 20; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  ASSERT_THAT(pool.Holders("hot"), ElementsAre("n0", "n1"));
  pool.Advance(absl::Seconds(2));  // it is not hot any more
  ASSERT_THAT(pool.core.DrainNode("n0", false, pool.now), IsOk());
  pool.Disconnect(*pool.nodes[1]);
  ASSERT_THAT(pool.Put("new", kBlockPayload), IsOk());
  EXPECT_THAT(pool.Holders("hot"), ElementsAre("n0", "n1"));
  pool.Lose(*pool.nodes[1]);
  EXPECT_THAT(pool.Exists("hot"), IsOk());
}

TEST(Hot, AReplicaThatIsKnownToBeDamagedIsNotCountedOn) {
  for (const int damaged : {0, 1}) {
    CopyPool pool(Eager());
    pool.AddNodes(2, 10 * kBlock);
    pool.PutSealed("hot", kBlockPayload);
    for (int i = 0; i < 18; ++i) pool.PutSealed(absl::StrCat("k", i), kBlockPayload);
    Read(pool, "hot", 10);
    pool.Settle(absl::Milliseconds(100));
    ASSERT_THAT(pool.Holders("hot"), SizeIs(2));
    pool.Advance(absl::Seconds(2));  // it is not hot any more
    const FakeNode& node = *pool.nodes[damaged];
    for (const SealedPart& part : node.Inventory()) {
      const LostPart lost[] = {{part.generation, part.extent}};
      if (part.key == "hot") pool.core.PartsLost(node.id, node.session, lost, pool.now);
    }
    ASSERT_THAT(pool.Put("new", kBlockPayload), IsOk());
    pool.Advance(absl::ZeroDuration());
    EXPECT_THAT(pool.Exists("hot"), IsOk());
    EXPECT_THAT(pool.Holders("hot"), ElementsAre(absl::StrCat("n", 1 - damaged)));
  }
}

TEST(Hot, OneReplicaMoreThanThereIsANodeForCostsNoneOfTheOthers) {
  CopyPool pool(Eager());
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("hot", 10);
  for (int i = 0; i < 5; ++i) {
    Read(pool, "hot", 15);
    pool.Settle(absl::Seconds(1));
    ASSERT_THAT(pool.Holders("hot"), SizeIs(2)) << i;
  }
  EXPECT_EQ(pool.Status().totals.copies_started, 1u);
  EXPECT_EQ(pool.Status().totals.replicas_trimmed, 0u);
}

TEST(Hot, ANodeIsDrainedOfWhatStaysHot) {
  CopyPool pool(Eager());
  pool.AddNodes(3, 100 * kBlock);
  pool.PutSealed("hot", 10);
  const auto stay_hot = [&](int windows) {
    for (int i = 0; i < windows; ++i) {
      Read(pool, "hot", 15);
      pool.Settle(absl::Seconds(1));
    }
  };
  stay_hot(3);
  ASSERT_THAT(pool.Holders("hot"), SizeIs(3));
  ASSERT_THAT(pool.core.DrainNode("n0", false, pool.now), IsOk());
  stay_hot(5);
  EXPECT_THAT(pool.Holders("hot"), ElementsAre("n1", "n2"));
  EXPECT_TRUE(pool.StatusOf("n0").drain->is_done);
}

TEST(Hot, WithoutAnotherNodeItIsTriedNoFurther) {
  CopyPool pool(Eager());
  pool.AddNodes(1, 10 * kBlock);
  pool.PutSealed("hot", 10);
  Read(pool, "hot", 100);
  pool.Settle(absl::Milliseconds(100));
  EXPECT_EQ(pool.Status().copies_waiting, 0u);
  EXPECT_EQ(pool.Status().short_objects, 0u);
}

TEST(Hot, WhatGetsNoReplicaLeavesRoomForOthers) {
  CoreOptions options = Eager();
  options.max_hot_objects = 2;
  CopyPool pool(options);
  pool.AddNodes(1, 10 * kBlock);
  pool.PutSealed("first", 10);
  pool.PutSealed("second", 10);
  for (int i = 0; i < 5; ++i) {
    Read(pool, "first", 10);
    pool.Settle(absl::Milliseconds(100));
  }
  pool.Join("n1", 10 * kBlock);
  Read(pool, "second", 10);
  pool.Settle(absl::Milliseconds(100));
  EXPECT_THAT(pool.Holders("second"), SizeIs(2));
}

TEST(Hot, WhatGotNoReplicaIsAskedAboutOncePerWindow) {
  CopyPool pool(Eager());
  pool.AddNodes(1, 10 * kBlock);
  pool.PutSealed("hot", 10);
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  pool.Join("n1", 10 * kBlock);
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  EXPECT_EQ(pool.Status().totals.copies_started, 0u);
  for (int i = 0; i < 3; ++i) {
    Read(pool, "hot", 10);
    pool.Settle(absl::Milliseconds(400));
  }
  EXPECT_THAT(pool.Holders("hot"), SizeIs(2)) << "still hot in the next one";
}

TEST(Hot, TheNextMasterDoesNotTakeItForTheWritersWish) {
  CopyPool pool(Eager());
  pool.AddNodes(3, 100 * kBlock);
  pool.PutSealed("hot", 10);
  Read(pool, "hot", 10);
  pool.Settle(absl::Milliseconds(100));
  ASSERT_THAT(pool.Holders("hot"), SizeIs(2));
  CopyPool next({}, Term{8});
  next.Follow(pool);
  next.Settle();
  EXPECT_THAT(next.Holders("hot"), SizeIs(1));
}

}  // namespace
}  // namespace moonpool::master
