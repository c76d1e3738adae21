// Nodes that are to be empty.
#include <string>

#include "master/core/testing/copy_pool.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::SizeIs;

class DrainTest : public testing::Test {
 protected:
  static std::string Key(int i) { return absl::StrCat("key", i); }
  void Drain(const std::string& name, bool cancel = false) {
    ASSERT_THAT(pool.core.DrainNode(name, cancel, pool.now), IsOk());
  }
  // All keys on the first node; others come later.
  void Fill(int keys, int more_nodes, uint64_t capacity = 100 * kBlock) {
    pool.AddNodes(1, capacity);
    for (int i = 0; i < keys; ++i) pool.PutSealed(Key(i), kBlockPayload);
    pool.AddNodes(more_nodes, capacity);
  }
  DrainStatus StatusOf(const std::string& name) {
    const NodeStatus node = pool.StatusOf(name);
    EXPECT_TRUE(node.drain.has_value());
    return node.drain.value_or(DrainStatus{});
  }

  CopyPool pool;
};

TEST_F(DrainTest, EverythingMovesAndStaysReadable) {
  Fill(30, 2);
  Drain("n0");
  EXPECT_EQ(StatusOf("n0").parts_left, 30u);
  EXPECT_EQ(StatusOf("n0").bytes_left, 30 * kBlock);
  pool.Settle();
  EXPECT_TRUE(StatusOf("n0").is_done);
  EXPECT_EQ(StatusOf("n0").moved_objects, 30u);
  EXPECT_EQ(StatusOf("n0").moved_bytes, 30 * kBlock);
  for (int i = 0; i < 30; ++i) {
    pool.ExpectReadable(Key(i));
    EXPECT_THAT(pool.Holders(Key(i)), SizeIs(1));
    EXPECT_THAT(pool.Holders(Key(i)), Not(Contains("n0")));
  }
  EXPECT_THAT(pool.nodes[0]->Inventory(), SizeIs(0)) << "it was told to forget";
}

TEST_F(DrainTest, ItTakesNothingMore) {
  Fill(1, 1);
  Drain("n0");
  for (int i = 0; i < 10; ++i) {
    const Grant grant = pool.Grab(absl::StrCat("new", i), 10, {.host = "host-n0"});
    EXPECT_EQ(grant.replicas[0].parts[0].node, pool.nodes[1]->id);
  }
  // Nor copies.
  pool.PutSealed("twice", 10, {.replicas = 2, .min_replicas = 1});
  pool.Settle();
  EXPECT_THAT(pool.Holders("twice"), ElementsAre("n1"));
}

TEST_F(DrainTest, TheHottestMoveFirst) {
  CopyPool slow({.copies_per_node = 1});
  slow.AddNodes(1, 100 * kBlock);
  for (int i = 0; i < 20; ++i) slow.PutSealed(Key(i), 10);
  slow.AddNodes(1, 100 * kBlock);
  slow.Get(Key(3));
  slow.Get(Key(17));
  ASSERT_THAT(slow.core.DrainNode("n0", false, slow.now), IsOk());
  std::vector<std::string> order;
  while (order.size() < 20) {
    slow.Advance(absl::Milliseconds(20));
    slow.KeepAlive();
    slow.Collect();
    for (const CopyCommand& copy : std::exchange(slow.orders, {})) {
      order.push_back(copy.key);
      slow.Answer(copy, slow.CarryOut(copy));
    }
  }
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 2),
              testing::UnorderedElementsAre(Key(3), Key(17)));
}

TEST_F(DrainTest, ReplicasThatAreEnoughElsewhereAreNotCopied) {
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("twice", 10, {.replicas = 2});
  pool.AddNodes(1, 100 * kBlock);
  // The third replica came with a node that had been lost.
  pool.Lose(*pool.nodes[1]);
  pool.Settle();
  ASSERT_THAT(pool.Holders("twice"), ElementsAre("n0", "n2"));
  const uint64_t before = pool.Status().totals.copies_started;
  Drain("n0");
  pool.Connect(*pool.nodes[1]);
  pool.Settle();
  EXPECT_THAT(pool.Holders("twice"), ElementsAre("n1", "n2"));
  EXPECT_LE(pool.Status().totals.copies_started, before + 1);
}

TEST_F(DrainTest, ALeasedReplicaIsCopiedButStaysUntilTheLeaseHasEnded) {
  Fill(1, 1);
  ASSERT_GT(pool.Get("key0", absl::Seconds(3)).location.lease, absl::ZeroDuration());
  const absl::Time leased_until = pool.now + absl::Seconds(3);
  Drain("n0");
  while (pool.now < leased_until - absl::Milliseconds(100)) {
    pool.Advance(absl::Milliseconds(100));
    pool.KeepAlive();
    pool.Collect();
    for (const CopyCommand& copy : std::exchange(pool.orders, {})) {
      pool.Answer(copy, pool.CarryOut(copy));
    }
    ASSERT_THAT(pool.Holders("key0"), Contains("n0"));
  }
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "n1"));
  EXPECT_EQ(StatusOf("n0").leased, 1u);
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n1"));
}

TEST_F(DrainTest, ACopyThatItsNodeHasNotNamedSinceItCameBackIsNotCountedOn) {
  Fill(1, 1);
  Drain("n0");
  ASSERT_GT(pool.Get("key0", absl::Seconds(3)).location.lease, absl::ZeroDuration());
  pool.Settle(absl::Seconds(1));
  ASSERT_THAT(pool.Holders("key0"), ElementsAre("n0", "n1"));
  FakeNode& n1 = *pool.nodes[1];
  for (const SealedPart& part : n1.Inventory()) n1.Forget(part.extent);
  pool.Disconnect(n1);
  const NodeHandle back = pool.Register(n1.description);
  pool.Advance(absl::Seconds(20));  // the lease has ended
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "n1"));
  pool.Complete(back);
  pool.Advance(absl::ZeroDuration());
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0"));
  pool.Connect(n1);
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n1"));
  pool.ExpectReadable("key0");
}

TEST_F(DrainTest, WhatCannotMoveIsSaidAndKept) {
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("twice", 10, {.replicas = 2});
  Drain("n0");
  pool.Settle();
  EXPECT_FALSE(StatusOf("n0").is_done);
  EXPECT_EQ(StatusOf("n0").without_node, 1u);
  EXPECT_THAT(pool.Holders("twice"), ElementsAre("n0", "n1"));
  pool.AddNodes(1, 100 * kBlock);
  pool.Settle();
  EXPECT_TRUE(StatusOf("n0").is_done);
  EXPECT_THAT(pool.Holders("twice"), ElementsAre("n1", "n2"));
}

TEST_F(DrainTest, ANodeThatHasNoRoomElsewhereSaysSo) {
  CopyPool lru({.eviction_policy = "lru"});
  lru.AddNodes(1, 10 * kBlock);
  for (int i = 0; i < 5; ++i) lru.PutSealed(Key(i), kBlockPayload);
  lru.AddNodes(1, 4 * kBlock);
  ASSERT_THAT(lru.core.DrainNode("n0", false, lru.now), IsOk());
  lru.Settle();
  // Four of them fit. The last one is the coldest of all there is.
  const NodeStatus node = lru.StatusOf("n0");
  EXPECT_EQ(node.drain->parts_left, 1u);
  EXPECT_EQ(node.drain->without_room, 1u);
  EXPECT_EQ(lru.Status().totals.evicted, 0u) << "the coldest evicts nothing";
}

TEST_F(DrainTest, WhatIsDamagedThereIsSaidAndNotTriedEverySecond) {
  Fill(1, 1);
  Drain("n0");
  pool.Advance(absl::ZeroDuration());
  pool.Collect();
  const CopyCommand copy = pool.orders.at(0);
  pool.Answer(copy, MakeError(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch,
                              "damaged", {.node = copy.source.name}));
  pool.orders.clear();
  pool.Settle(absl::Seconds(30));
  EXPECT_EQ(StatusOf("n0").unreadable, 1u);
  EXPECT_EQ(pool.Status().totals.copies_started, 1u);
  // It was not damaged after all.
  pool.Settle(absl::Seconds(35));
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n1"));
}

TEST_F(DrainTest, ItCanBeCalledOff) {
  CopyPool slow({.copies_per_node = 1});
  slow.AddNodes(1, 100 * kBlock);
  for (int i = 0; i < 20; ++i) slow.PutSealed(Key(i), 10);
  slow.AddNodes(1, 100 * kBlock);
  ASSERT_THAT(slow.core.DrainNode("n0", false, slow.now), IsOk());
  slow.Advance(absl::Milliseconds(20));
  slow.Collect();
  ASSERT_THAT(slow.orders, SizeIs(1));
  ASSERT_THAT(slow.core.DrainNode("n0", true, slow.now), IsOk());
  EXPECT_FALSE(slow.StatusOf("n0").drain.has_value());
  slow.Settle();
  int left = 0;
  for (int i = 0; i < 20; ++i) left += slow.Holders(Key(i)) == std::vector<std::string>{"n0"};
  EXPECT_GE(left, 18);
  EXPECT_EQ(slow.Grab("new", 10, {.host = "host-n0"}).replicas[0].parts[0].node, slow.nodes[0]->id);
  EXPECT_THAT(slow.core.CheckInvariants(), IsOk());
}

TEST_F(DrainTest, TwoNodesAreDrainedSideBySide) {
  CopyPool slow({.copies_per_node = 8});
  const auto fill = [&](const std::string& name, int count) {
    for (int i = 0; i < count; ++i) slow.PutSealed(absl::StrCat(name, "-", i), 10);
  };
  slow.Join("n0", 100 * kBlock);
  fill("n0", 1500);
  slow.AddNodes(1, 100 * kBlock);
  for (int i = 0; i < 100; ++i) {
    slow.PutSealed(absl::StrCat("n1-", i), 10, {.host = "host-n1"});
  }
  slow.AddNodes(1, 100 * kBlock);
  for (const char* name : {"n0", "n1"}) {
    ASSERT_THAT(slow.core.DrainNode(name, false, slow.now), IsOk());
  }
  const auto moved = [&](const char* name) { return slow.StatusOf(name).drain->moved_objects; };
  for (int i = 0; i < 10'000 && moved("n0") + moved("n1") < 400; ++i) {
    slow.Advance(absl::Milliseconds(20));
    slow.KeepAlive();
    slow.Collect();
    for (const CopyCommand& copy : std::exchange(slow.orders, {})) {
      slow.Answer(copy, slow.CarryOut(copy));
    }
  }
  EXPECT_GE(moved("n1"), 40u) << "though n0 has as much as may wait, and more";
}

TEST_F(DrainTest, NobodyDrainsAnUnknownNode) {
  pool.AddNodes(1, kBlock);
  const auto unknown = pool.core.DrainNode("n7", false, pool.now);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(DetailOf(unknown.status())->hint.empty());
  // To call off what is not there is no error for a node that is there.
  EXPECT_THAT(pool.core.DrainNode("n0", true, pool.now), IsOk());
}

TEST_F(DrainTest, TheNextMasterGoesOnWithIt) {
  CopyPool first({}, DurableState{.term = Term{7}}, Term{7});
  first.AddNodes(2, 100 * kBlock);
  ASSERT_THAT(first.core.DrainNode("n0", false, first.now), IsOk());
  first.Collect();
  ASSERT_THAT(first.unsaved, Contains(DurableChange(DurableDrain{"n0"})));
  ASSERT_THAT(first.core.DrainNode("n0", true, first.now), IsOk());
  first.Collect();
  ASSERT_THAT(first.unsaved, Contains(DurableChange(DrainEnded{"n0"})));

  CopyPool next({}, DurableState{.term = Term{8}, .drains = {{"n0"}}}, Term{8});
  next.AddNodes(2, 100 * kBlock);
  EXPECT_TRUE(next.StatusOf("n0").drain.has_value());
  EXPECT_EQ(next.Grab("new", 10, {.host = "host-n0"}).replicas[0].parts[0].node, next.nodes[1]->id);
}

TEST_F(DrainTest, ItIsNotDoneBeforeTheNextMasterKnowsWhatTheNodeHolds) {
  CopyPool first({}, DurableState{.term = Term{7}}, Term{7});
  first.AddNodes(1, 100 * kBlock);
  first.PutSealed("a", 10);
  CopyPool next(
      {}, DurableState{.term = Term{8}, .nodes = {{"n0", Incarnation{1}, {}}}, .drains = {{"n0"}}},
      Term{8});
  const auto is_done = [&] { return next.StatusOf("n0").drain.value().is_done; };
  FakeNode& node = *first.nodes[0];
  node.description.highest_term_seen = Term{7};
  const NodeHandle handle = next.Register(node.description);
  EXPECT_FALSE(is_done()) << "it has said nothing yet";
  next.Inventory(handle, node.Inventory());
  next.Complete(handle);
  EXPECT_FALSE(is_done());
  next.nodes = std::move(first.nodes);
  next.Connect(node);
  next.AddNodes(1, 100 * kBlock);
  next.Settle();
  EXPECT_TRUE(is_done());
}

TEST_F(DrainTest, ItIsNotDoneWhileAPartWaitsForTheOthersOfItsObject) {
  const NodeHandle node = pool.Register(OldNode("n0"));
  Drain("n0");
  pool.Inventory(node, {OldHalves("a")[0]});
  pool.Complete(node);
  EXPECT_EQ(StatusOf("n0").parts_left, 0u);
  EXPECT_GT(StatusOf("n0").bytes_left, 0u);
  EXPECT_FALSE(StatusOf("n0").is_done);
  pool.Advance(absl::Seconds(61));
  EXPECT_TRUE(StatusOf("n0").is_done) << "nobody has the other half";
}

TEST_F(DrainTest, ANodeThatWasLostWithWhatItHeldIsNotDrained) {
  Fill(3, 1);
  Drain("n0");
  pool.Lose(*pool.nodes[0]);
  EXPECT_EQ(StatusOf("n0").parts_left, 0u);
  EXPECT_FALSE(StatusOf("n0").is_done);
  pool.Connect(*pool.nodes[0]);
  pool.Settle();
  EXPECT_TRUE(StatusOf("n0").is_done);
  EXPECT_EQ(StatusOf("n0").moved_objects, 3u);
  pool.Lose(*pool.nodes[0]);
  EXPECT_TRUE(StatusOf("n0").is_done) << "it was stopped when it was empty";
}

TEST_F(DrainTest, WhatHasMovedIsNoMoreWishedForThanBefore) {
  Fill(1, 1);
  Drain("n0");
  pool.Settle();
  ASSERT_THAT(pool.Holders("key0"), ElementsAre("n1"));
  CopyPool next({}, Term{8});
  next.Follow(pool);
  next.Settle();
  EXPECT_THAT(next.Holders("key0"), SizeIs(1));
  EXPECT_EQ(next.Status().totals.copies_started, 0u);
}

TEST_F(DrainTest, ANodeThatComesBackEmptyIsStillDrained) {
  Fill(1, 1);
  Drain("n0");
  pool.Disconnect(*pool.nodes[0]);
  pool.nodes[0]->LoseAll();
  pool.Connect(*pool.nodes[0]);
  EXPECT_TRUE(StatusOf("n0").is_done);
  EXPECT_NE(pool.Grab("new", 10, {.host = "host-n0"}).replicas[0].parts[0].node, pool.nodes[0]->id);
}

TEST_F(DrainTest, AForgottenNodeIsNotDrainedAnyMore) {
  Fill(1, 1);
  Drain("n0");
  pool.Disconnect(*pool.nodes[0]);
  ASSERT_THAT(pool.core.ForgetNode("n0", pool.now), IsOk());
  pool.Advance(absl::Seconds(10));
  pool.nodes[0]->LoseAll();
  pool.Connect(*pool.nodes[0]);
  EXPECT_FALSE(pool.StatusOf("n0").drain.has_value());
}

TEST_F(DrainTest, ToForgetANodeThatNobodyKnowsEndsNoDrain) {
  CopyPool next({}, DurableState{.term = Term{8}, .drains = {{"n0"}}}, Term{8});
  EXPECT_THAT(next.core.ForgetNode("n0", next.now), StatusIs(absl::StatusCode::kNotFound));
  next.Collect();
  EXPECT_THAT(next.unsaved, SizeIs(0));
  next.AddNodes(1, kBlock);
  EXPECT_TRUE(next.StatusOf("n0").drain.has_value());
}

TEST_F(DrainTest, WhatIsEvictedMeanwhileNeedsNoMove) {
  Fill(8, 1, 10 * kBlock);
  Drain("n0");
  pool.Advance(absl::Milliseconds(20));
  pool.Collect();
  ASSERT_FALSE(pool.orders.empty());
  // The copies hold the other node's bytes; what is put now takes the place of what they copy.
  for (int i = 0; i < 8; ++i) pool.PutSealed(absl::StrCat("new", i), kBlockPayload);
  EXPECT_GT(pool.Ended(CopyEnd::kObjectGone), 0u);
  pool.Settle();
  EXPECT_TRUE(StatusOf("n0").is_done);
}

}  // namespace
}  // namespace moonpool::master
