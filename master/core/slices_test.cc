// Work that is put off comes in slices: of whatever there is much, all else goes on beside it.
#include <string>

#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

// As many leases run out between two slices as one slice can look at.
TEST(Slices, LostObjectsGoHoweverManyLeasesEnd) {
  CoreFixture pool({.work_per_tick = 10});
  const NodeHandle lost = pool.AddNode("n1", 100 * kBlock);
  for (int i = 0; i < 50; ++i) ASSERT_THAT(pool.Put(absl::StrCat("lost", i), 10), IsOk());
  pool.Disconnect(lost);
  pool.AddNode("n2", 100 * kBlock);
  for (int i = 0; i < 20; ++i) ASSERT_THAT(pool.Put(absl::StrCat("leased", i), 10), IsOk());
  pool.now += absl::Seconds(5);
  for (int slice = 0; slice < 20; ++slice) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_THAT(pool.Get(absl::StrCat("leased", i), absl::Milliseconds(1)).status, IsOk());
    }
    pool.now += absl::Milliseconds(2);
    pool.core.Tick(pool.now);
  }
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.lost, 50u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// A walk over a large node takes many slices.
TEST(Slices, ReplicasAreMadeWhileADrainLooksAtItsNode) {
  CopyPool pool({.work_per_tick = 10});
  pool.Join("drained", 1000 * kBlock);
  for (int i = 0; i < 500; ++i) pool.PutSealed(absl::StrCat("key", i), 10);
  pool.Advance(absl::Minutes(2));  // none of them was read lately, and the walk passes them by
  ASSERT_THAT(pool.core.DrainNode("drained", false, pool.now), IsOk());
  pool.Join("n1", kBlock);
  pool.PutSealed("short", kBlockPayload, {.replicas = 2, .min_replicas = 1});
  pool.Join("n2", kBlock);
  for (int slice = 0; slice < 5; ++slice) EXPECT_TRUE(pool.core.Tick(pool.now));
  EXPECT_EQ(pool.Status().totals.copies_started, 1u);
}

// The second one of the first node waits for the first one. Those behind it have nodes of their
// own.
TEST(Slices, WhatWaitsForItsNodesKeepsNothingElseWaiting) {
  constexpr int kNodes = 13;
  CopyPool pool({.copies_per_node = 1, .work_per_tick = 10, .copy_work_per_tick = 10});
  for (int i = 0; i < kNodes; ++i) {
    const int keys = i == 0 ? 2 : 1;
    FakeNode& node = pool.Join(absl::StrCat("full", i), keys * kBlock);
    for (int k = 0; k < keys; ++k) {
      pool.PutSealed(absl::StrCat(i, "/", k), kBlockPayload, {.replicas = 2, .min_replicas = 1});
    }
    pool.Disconnect(node);
  }
  for (const auto& node : pool.nodes) pool.Connect(*node);
  for (int i = 0; i < kNodes; ++i) pool.Join(absl::StrCat("empty", i), kBlock);
  pool.Advance(absl::Seconds(6));
  EXPECT_EQ(pool.Status().totals.copies_started, uint64_t{kNodes});
}

}  // namespace
}  // namespace moonpool::master
