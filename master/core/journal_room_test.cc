// Nodes whose journal cannot grow: they hold so many parts and no more, whatever their bytes say.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

std::string Key(int i) { return absl::StrCat("key", i); }

class JournalRoomTest : public ::testing::Test {
 protected:
  // Its heartbeat says so; what it is to do then is done.
  void Bound(const std::string& name, std::optional<uint64_t> parts_max) {
    for (const auto& node : pool_.nodes) {
      if (node->description.name != name) continue;
      pool_.core.Heartbeat(node->id, node->session, pool_.now, parts_max);
      const Effects effects = pool_.core.TakeEffects();
      for (const NodeId id : effects.to_register) pool_.Connect(*pool_.NodeOf(id));
    }
    pool_.Collect();
  }

  CopyPool pool_;
};

TEST_F(JournalRoomTest, EvictsOneForEachThatComesThoughThereAreFreeBytes) {
  pool_.AddNodes(1, 100 * kBlock);
  for (int i = 0; i < 3; ++i) pool_.PutSealed(Key(i), kBlockPayload);
  Bound("n0", 3);
  EXPECT_EQ(pool_.StatusOf("n0").parts_max, 3u);
  for (int i = 3; i < 20; ++i) {
    pool_.PutSealed(Key(i), 10);
    pool_.Collect();
    // What went is forgotten at once: its record is the room.
    EXPECT_THAT(pool_.nodes[0]->records(), SizeIs(3)) << i;
    EXPECT_EQ(pool_.StatusOf("n0").parts, 3u) << i;
  }
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(JournalRoomTest, WhatIsToComeGoesWhereThereIsRoom) {
  pool_.AddNodes(2, 100 * kBlock);
  Bound("n0", 0);
  for (int i = 0; i < 50; ++i) pool_.PutSealed(Key(i), kBlockPayload);
  EXPECT_THAT(pool_.nodes[0]->records(), IsEmpty());
  EXPECT_EQ(pool_.Status().totals.evicted, 0u);
  Bound("n0", std::nullopt);
  for (int i = 50; i < 100; ++i) pool_.PutSealed(Key(i), kBlockPayload);
  EXPECT_FALSE(pool_.nodes[0]->records().empty());
  EXPECT_EQ(pool_.StatusOf("n0").parts_max, std::nullopt);
}

// Whatever went elsewhere, there would be no room for the second replica.
TEST_F(JournalRoomTest, NothingIsEvictedForAReplicaThatNoNodeCanTake) {
  pool_.AddNodes(2, 100 * kBlock);
  Bound("n0", 0);
  for (int i = 0; i < 50; ++i) pool_.PutSealed(Key(i), kBlockPayload);
  EXPECT_EQ(pool_.Grab("one", 10, {.replicas = 2, .min_replicas = 1}).replicas.size(), 1u);
  EXPECT_THAT(pool_.Start("none", 10, {.replicas = 2}).status,
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace));
  EXPECT_EQ(pool_.Status().totals.evicted, 0u);
}

// What no node can take sleeps. That the bound of one has changed wakes nobody.
TEST_F(JournalRoomTest, ABoundThatWaversCostsNothing) {
  CopyPool pool({.work_per_tick = 16});
  pool.AddNodes(2, 100 * kBlock);
  for (int i = 0; i < 50; ++i) pool.PutSealed(Key(i), 10, {.replicas = 3, .min_replicas = 2});
  FakeNode& node = *pool.nodes[0];
  pool.core.Heartbeat(node.id, node.session, pool.now, 1000);
  pool.Disconnect(node);
  pool.Connect(node);
  pool.Advance(absl::Seconds(1));
  for (uint64_t parts_max = 1001; parts_max < 1010; ++parts_max) {
    pool.core.Heartbeat(node.id, node.session, pool.now, parts_max);
    EXPECT_FALSE(pool.core.Tick(pool.now)) << parts_max;
  }
  EXPECT_EQ(pool.Status().short_objects, 50u);
}

// It was evicted, and nothing has overwritten it. Only its node still has a record of it.
TEST_F(JournalRoomTest, WhatIsDeadThereIsForgotten) {
  pool_.AddNodes(1, 2 * kBlock);
  for (int i = 0; i < 3; ++i) pool_.PutSealed(Key(i), 10);
  pool_.Grab("large", 2 * kBlock - kPartHeaderBytes);
  pool_.Collect();
  ASSERT_THAT(pool_.nodes[0]->records(), SizeIs(3));
  Bound("n0", 3);
  EXPECT_THAT(pool_.nodes[0]->records(), IsEmpty());
  // Once is enough.
  const uint64_t before = pool_.Status().totals.inventories_retaken;
  Bound("n0", 2);
  EXPECT_EQ(pool_.Status().totals.inventories_retaken, before);
}

TEST_F(JournalRoomTest, NoCopyGoesThere) {
  pool_.AddNodes(3, 100 * kBlock);
  pool_.PutSealed("key", kBlockPayload, {.replicas = 2});
  const std::vector<std::string> holders = pool_.Holders("key");
  for (const char* name : {"n0", "n1", "n2"}) {
    if (std::find(holders.begin(), holders.end(), name) == holders.end()) Bound(name, 0);
  }
  pool_.Lose(*pool_.NodeOf(pool_.Get("key").location.replicas[0].parts[0].node));
  for (int i = 0; i < 50; ++i) {
    pool_.Advance(absl::Milliseconds(100));
    pool_.Collect();
    ASSERT_THAT(pool_.orders, IsEmpty());
  }
  EXPECT_EQ(pool_.Status().short_objects, 1u);
}

}  // namespace
}  // namespace moonpool::master
