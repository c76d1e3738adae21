// Replicas that were lost are made again: which, where, in what order, and what may go wrong.
#include <string>
#include <vector>

#include "master/core/testing/copy_pool.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

const PutArguments kTwice = {.replicas = 2};

// Two nodes hold all keys; a third one is empty.
class RepairTest : public testing::Test {
 protected:
  void Fill(int keys, uint64_t capacity = 100 * kBlock) {
    pool.AddNodes(2, capacity);
    for (int i = 0; i < keys; ++i) pool.PutSealed(Key(i), kBlockPayload, kTwice);
    pool.AddNodes(1, capacity);
  }
  static std::string Key(int i) { return absl::StrCat("key", i); }
  FakeNode& Node(size_t i) { return *pool.nodes[i]; }

  CopyPool pool;
};

TEST_F(RepairTest, ALostNodeIsMadeUpFor) {
  Fill(20);
  pool.Lose(Node(1));
  EXPECT_EQ(pool.Status().short_objects, 20u);
  pool.Settle();
  EXPECT_EQ(pool.Status().short_objects, 0u);
  EXPECT_EQ(pool.Ended(CopyEnd::kDone), 20u);
  EXPECT_EQ(pool.Status().totals.copied_bytes, 20 * kBlock);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(pool.Holders(Key(i)), ElementsAre("n0", "n2"));
    pool.ExpectReadable(Key(i));
  }
  // The first holder may go now as well.
  pool.Lose(Node(0));
  for (int i = 0; i < 20; ++i) pool.ExpectReadable(Key(i));
}

TEST_F(RepairTest, AnAbsenceIsNoLoss) {
  Fill(5);
  pool.Disconnect(Node(1));
  pool.Advance(absl::Seconds(4));
  pool.Collect();
  EXPECT_THAT(pool.orders, SizeIs(0));
  pool.Connect(Node(1));
  pool.Settle();
  EXPECT_EQ(pool.Status().totals.copies_started, 0u);
}

TEST_F(RepairTest, ACopyNamesAllThatItsNodeNeeds) {
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("parent", 10, kTwice);
  pool.PutSealed("child", kBlockPayload, {.parent = "parent", .replicas = 2});
  pool.AddNodes(1, 100 * kBlock);
  const Generation newest = pool.Get("child").location.generation;
  pool.Lose(Node(0));
  pool.Collect();
  ASSERT_THAT(pool.orders, SizeIs(2));
  const CopyCommand& copy = pool.orders[pool.orders[0].key == "child" ? 0 : 1];
  EXPECT_EQ(copy.node, Node(2).id);
  EXPECT_EQ(copy.session, Node(2).session);
  EXPECT_EQ(copy.command_id, copy.claim.value);
  EXPECT_GT(copy.claim, newest) << "newer than everything that was granted for these bytes";
  EXPECT_EQ(copy.generation, newest);
  EXPECT_EQ(copy.name_space, "default");
  EXPECT_EQ(copy.key, "child");
  EXPECT_EQ(copy.parent, "parent");
  EXPECT_EQ(copy.object_bytes, kBlockPayload);
  EXPECT_EQ(copy.extent.length, kBlock);
  EXPECT_EQ(copy.part_count, 1u);
  EXPECT_EQ(copy.replica_index, 1u);
  EXPECT_EQ(copy.source.node, Node(1).id);
  EXPECT_EQ(copy.source.tcp_address, "n1:1");
  EXPECT_TRUE(Node(1).Holds(copy.generation, copy.source_extent));
  EXPECT_GT(copy.timeout, absl::Seconds(1));
  EXPECT_EQ(pool.StatusOf("n2").granted_bytes, kBlock + 128);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST_F(RepairTest, AReportIsAsGoodAsAResult) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  ASSERT_THAT(pool.orders, SizeIs(1));
  ASSERT_THAT(pool.CarryOut(pool.orders[0]), IsOk());
  const std::vector<SealedPart> report = Node(2).Inventory();
  pool.core.SealReport(Node(2).id, Node(2).session, report, pool.now);
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "n2"));
  pool.Answer(pool.orders[0], absl::OkStatus());
  EXPECT_EQ(pool.Ended(CopyEnd::kDone), 1u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST_F(RepairTest, PartsAreCopiedAsTheyAreCut) {
  CopyPool striped({.stripe_bytes = 4 * kBlock});
  striped.AddNodes(6, 100 * kBlock);
  striped.PutSealed("large", 12 * kBlock, kTwice);
  const size_t parts = striped.Get("large").location.replicas[0].parts.size();
  ASSERT_EQ(parts, 3u);
  const NodeId holder = striped.Get("large").location.replicas[0].parts[1].node;
  striped.AddNodes(3, 100 * kBlock);
  striped.Lose(*striped.NodeOf(holder));
  striped.Collect();
  ASSERT_THAT(striped.orders, SizeIs(3));
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(striped.orders[i].part_index, i);
    EXPECT_EQ(striped.orders[i].part_count, 3u);
    EXPECT_EQ(striped.orders[i].extent.length, striped.orders[i].source_extent.length);
    EXPECT_EQ(striped.orders[i].replica_index, 1u) << "its source's, which is cut the same way";
  }
  striped.Settle();
  EXPECT_EQ(striped.Status().short_objects, 0u);
  EXPECT_EQ(striped.Get("large").location.replicas.size(), 2u);
  striped.ExpectReadable("large");
}

TEST_F(RepairTest, ACopyStandsApartFromTheReplicasThatStay) {
  for (const auto& [name, host, rack] :
       {std::tuple("a1", "h1", "r1"), std::tuple("b1", "h2", "r2"), std::tuple("a2", "h1", "r1"),
        std::tuple("a3", "h3", "r1"), std::tuple("c1", "h4", "r3")}) {
    pool.Join(name, 100 * kBlock, host, rack);
  }
  pool.Disconnect(Node(2));
  pool.Disconnect(Node(3));
  pool.Disconnect(Node(4));
  for (int i = 0; i < 10; ++i) pool.PutSealed(Key(i), 10, kTwice);
  for (size_t i : {2, 3, 4}) pool.Connect(Node(i));
  pool.Lose(Node(1));
  pool.Settle();
  for (int i = 0; i < 10; ++i) EXPECT_THAT(pool.Holders(Key(i)), ElementsAre("a1", "c1"));
}

TEST_F(RepairTest, NoCopyGoesToANodeThatCannotTakeIt) {
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("key0", 10, kTwice);
  pool.Join("old", 100 * kBlock, "", "", /*wire_minor=*/2);
  pool.Lose(Node(1));
  pool.Settle();
  EXPECT_EQ(pool.Status().totals.copies_started, 0u);
  EXPECT_EQ(pool.Status().short_objects, 1u);
  // It waits for nothing but a node.
  pool.Join("new", 100 * kBlock);
  pool.Settle(absl::Seconds(1));
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "new"));
}

TEST_F(RepairTest, FewerReplicasThanWishedForAreMadeUpFor) {
  pool.AddNodes(1, 100 * kBlock);
  pool.PutSealed("key0", 10, {.replicas = 3, .min_replicas = 1});
  EXPECT_EQ(pool.Status().short_objects, 1u);
  pool.AddNodes(3, 100 * kBlock);
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), SizeIs(3));
}

TEST_F(RepairTest, ThoseWithFewestReplicasComeFirstAndOfThemTheHot) {
  CopyPool slow({.copies_per_node = 1});
  slow.AddNodes(3, 100 * kBlock);
  slow.PutSealed("three", 10, {.replicas = 3});
  slow.Disconnect(*slow.nodes[2]);
  slow.PutSealed("cold", 10, kTwice);
  slow.PutSealed("hot", 10, kTwice);
  slow.Connect(*slow.nodes[2]);
  slow.AddNodes(1, 100 * kBlock);
  slow.Disconnect(*slow.nodes[0]);
  slow.Advance(absl::Seconds(4));
  slow.Get("hot");
  slow.Advance(absl::Seconds(2));
  std::vector<std::string> order;
  for (int i = 0; i < 3; ++i) {
    slow.Collect();
    ASSERT_THAT(slow.orders, SizeIs(1)) << "one at a time";
    order.push_back(slow.orders[0].key);
    slow.Answer(slow.orders[0], slow.CarryOut(slow.orders[0]));
    slow.orders.clear();
  }
  EXPECT_THAT(order, ElementsAre("hot", "cold", "three"));
}

TEST_F(RepairTest, NodesGiveAndTakeAtTheirPace) {
  CopyPool paced({.copy_bandwidth = 10 * kBlock});
  paced.AddNodes(2, 200 * kBlock);
  for (int i = 0; i < 100; ++i) paced.PutSealed(Key(i), kBlockPayload, kTwice);
  paced.AddNodes(1, 200 * kBlock);
  paced.Lose(*paced.nodes[1]);
  // Ten blocks a second; the bucket holds one more.
  paced.Settle(absl::Seconds(3));
  EXPECT_GE(paced.Ended(CopyEnd::kDone), 28u);
  EXPECT_LE(paced.Ended(CopyEnd::kDone), 40u);
  paced.Settle(absl::Seconds(10));
  EXPECT_EQ(paced.Ended(CopyEnd::kDone), 100u);
}

TEST_F(RepairTest, ACopyThatFailsIsTriedAgain) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  ASSERT_THAT(pool.orders, SizeIs(1));
  const CopyCommand first = pool.orders[0];
  pool.orders.clear();
  pool.Answer(first, absl::UnavailableError("the source cannot be reached"));
  EXPECT_EQ(pool.Ended(CopyEnd::kFailed), 1u);
  EXPECT_EQ(pool.StatusOf("n2").used_bytes, 0u);
  const std::vector<FreeCommand> frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, Node(2).id, first.claim));
  EXPECT_TRUE(Names(frees, Node(2).id, first.generation));
  // Not before the node has forgotten it, and not at once.
  pool.Advance(absl::Seconds(1));
  pool.Collect();
  EXPECT_THAT(pool.orders, SizeIs(0));
  for (const FreeCommand& free : frees) {
    Node(2).Free(free);
    pool.Confirm(free);
  }
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "n2"));
}

TEST_F(RepairTest, NoCopyGoesWhereTheGenerationIsStillToBeForgotten) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  pool.Answer(pool.orders.at(0), absl::UnavailableError("lost"));
  pool.orders.clear();
  (void)pool.TakeFrees();  // and nobody carries them out
  pool.Advance(absl::Seconds(20));
  EXPECT_EQ(pool.Status().totals.copies_started, 1u);
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "n2"));
}

TEST_F(RepairTest, BytesThatAreStillPinnedRest) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  pool.Answer(pool.orders.at(0), MakeError(absl::StatusCode::kUnavailable,
                                           ErrorReason::kBytesPinned, "a view is open"));
  EXPECT_EQ(pool.StatusOf("n2").condemned_bytes, kBlock);
  pool.Advance(absl::Seconds(2));
  EXPECT_EQ(pool.StatusOf("n2").condemned_bytes, 0u);
}

TEST_F(RepairTest, ACopyThatTakesTooLongIsGivenUp) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  const CopyCommand late = pool.orders.at(0);
  pool.Advance(absl::Seconds(11));
  EXPECT_EQ(pool.Ended(CopyEnd::kTimedOut), 1u);
  // What it brings now is not taken, and forgotten.
  ASSERT_THAT(pool.CarryOut(late), IsOk());
  pool.core.SealReport(Node(2).id, Node(2).session, Node(2).Inventory(), pool.now);
  pool.Answer(late, absl::OkStatus());
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0"));
  pool.Collect();
  EXPECT_FALSE(Node(2).Holds(late.generation, late.extent));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST_F(RepairTest, WhatComesOfACopyThatWasGivenUpIsNotTakenEvenWhereDebtsAreFull) {
  CopyPool small({.max_debts = 1});
  small.AddNodes(2, 100 * kBlock);
  small.PutSealed("key0", 10, kTwice);
  small.AddNodes(1, 100 * kBlock);
  small.Lose(*small.nodes[1]);
  small.Collect();
  const CopyCommand late = small.orders.at(0);
  small.Advance(absl::Seconds(11));
  ASSERT_EQ(small.Ended(CopyEnd::kTimedOut), 1u);
  // There was room for the claim, and not for the generation.
  ASSERT_THAT(small.CarryOut(late), IsOk());
  FakeNode& target = *small.nodes[2];
  small.core.SealReport(target.id, target.session, target.Inventory(), small.now);
  EXPECT_THAT(small.Holders("key0"), ElementsAre("n0"));
}

TEST_F(RepairTest, AClaimInFlightIsNotRefusedForGood) {
  Fill(2);
  pool.Lose(Node(1));
  pool.Collect();
  ASSERT_THAT(pool.orders, SizeIs(2));
  // Whatever is freed now must leave the claims open.
  pool.Remove(pool.orders[1].key);
  const std::vector<FreeCommand> frees = pool.TakeFrees();
  ASSERT_FALSE(frees.empty());
  for (const FreeCommand& free : frees) {
    EXPECT_LE(free.oldest_open, pool.orders[0].claim);
    Node(0).Free(free);
    if (free.node == Node(2).id) Node(2).Free(free);
  }
  EXPECT_THAT(pool.CarryOut(pool.orders[0]), IsOk());
}

TEST_F(RepairTest, ARemovalAwaitsTheNodeThatACopyIsGoingTo) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  const CopyCommand copy = pool.orders.at(0);
  ASSERT_THAT(pool.core.ForgetNode("n1", pool.now), IsOk());
  const RemoveOutcome removal = pool.Remove("key0");
  ASSERT_THAT(removal.status, IsOk());
  EXPECT_EQ(pool.Ended(CopyEnd::kObjectGone), 1u);
  const std::vector<FreeCommand> frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, Node(2).id, copy.generation));
  EXPECT_TRUE(Names(frees, Node(2).id, copy.claim));
  for (const FreeCommand& free : frees) {
    if (free.node == Node(0).id) pool.Confirm(free);
  }
  EXPECT_FALSE(pool.core.IsRemoveDone(removal.ticket)) << "n2 may have sealed it";
  for (const FreeCommand& free : frees) {
    if (free.node == Node(2).id) pool.Confirm(free);
  }
  EXPECT_TRUE(pool.core.IsRemoveDone(removal.ticket));
}

TEST_F(RepairTest, ACopyEndsWithTheSessionOfItsTarget) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Collect();
  const CopyCommand copy = pool.orders.at(0);
  ASSERT_THAT(pool.CarryOut(copy), IsOk());
  pool.Disconnect(Node(2));
  EXPECT_EQ(pool.Ended(CopyEnd::kTargetGone), 1u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  // It brings what it has sealed, which is to be forgotten first.
  pool.Connect(Node(2));
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0"));
  pool.orders.clear();
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), ElementsAre("n0", "n2"));
  pool.ExpectReadable("key0");
}

TEST_F(RepairTest, AnEvictedObjectTakesItsCopyAlong) {
  Fill(1, 4 * kBlock);
  pool.Lose(Node(1));
  pool.Collect();
  ASSERT_THAT(pool.orders, SizeIs(1));
  const CopyCommand copy = pool.orders[0];
  for (int i = 0; i < 12; ++i) pool.PutSealed(absl::StrCat("new", i), kBlockPayload);
  EXPECT_EQ(ReasonOf(pool.Get("key0").status), ErrorReason::kEvicted);
  EXPECT_EQ(pool.Ended(CopyEnd::kObjectGone), 1u);
  (void)pool.CarryOut(copy);
  pool.Answer(copy, absl::OkStatus());
  pool.orders.clear();
  pool.Settle();
  EXPECT_FALSE(Node(2).Holds(copy.generation, copy.extent));
}

TEST_F(RepairTest, WhatComesBackAsWellIsMoreThanWished) {
  Fill(5);
  pool.Lose(Node(1));
  pool.Settle();
  pool.Connect(Node(1));
  pool.Settle();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(pool.Holders(Key(i)), SizeIs(2));
    pool.ExpectReadable(Key(i));
  }
  EXPECT_EQ(pool.Status().totals.replicas_trimmed, 5u);
}

TEST_F(RepairTest, AReplicaThatIsTooManyStaysWhileItIsLeased) {
  Fill(1);
  pool.Lose(Node(1));
  pool.Settle();
  ASSERT_GT(pool.Get("key0", absl::Seconds(3)).location.lease, absl::ZeroDuration());
  pool.Connect(Node(1));
  for (int i = 0; i < 10; ++i) {
    pool.Advance(absl::Milliseconds(200));
    pool.KeepAlive();
    pool.Collect();
  }
  EXPECT_THAT(pool.Holders("key0"), SizeIs(3));
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), SizeIs(2));
}

TEST_F(RepairTest, TheReplicaThatGoesSharesItsHostWithAnother) {
  for (const auto& [name, host] : {std::pair("a1", "h1"), std::pair("b1", "h2")}) {
    pool.Join(name, 100 * kBlock, host);
  }
  pool.PutSealed("key0", 10, kTwice);
  pool.Join("a2", 100 * kBlock, "h1");
  pool.Lose(Node(1));
  pool.Settle();
  ASSERT_THAT(pool.Holders("key0"), ElementsAre("a1", "a2")) << "better than one";
  pool.Connect(Node(1));
  pool.Settle();
  EXPECT_THAT(pool.Holders("key0"), testing::Contains("b1"));
  EXPECT_THAT(pool.Holders("key0"), SizeIs(2));
}

TEST_F(RepairTest, TheNextMasterKnowsHowManyReplicasThereShallBe) {
  pool.AddNodes(3, 100 * kBlock);
  for (int i = 0; i < 10; ++i) pool.PutSealed(Key(i), 10, kTwice);
  CopyPool next({}, Term{8});
  next.Follow(pool);
  next.Settle();
  EXPECT_EQ(next.Status().totals.copies_started, 0u) << "nothing is missing";
  next.Lose(*next.nodes[0]);
  next.Settle();
  for (int i = 0; i < 10; ++i) EXPECT_THAT(next.Holders(Key(i)), SizeIs(2)) << i;
}

TEST_F(RepairTest, TheNextMasterKnowsItOfWhatWasShortWhenTheLastOneDied) {
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("key", 10, kTwice);
  pool.Lose(*pool.nodes[1]);
  CopyPool next({}, Term{8});
  next.nodes.push_back(std::move(pool.nodes[0]));
  next.nodes[0]->description.highest_term_seen = Term{7};
  next.Connect(*next.nodes[0]);
  next.Settle();
  EXPECT_EQ(next.Status().short_objects, 1u);
  next.AddNodes(1, 100 * kBlock);
  next.Settle();
  EXPECT_THAT(next.Holders("key"), SizeIs(2));
}

TEST_F(RepairTest, WhatTurnsOutToBeWholeWaitsForNothing) {
  pool.AddNodes(3, 400 * kBlock);
  for (int i = 0; i < 100; ++i) pool.PutSealed(Key(i), 10, {.replicas = 3});
  CopyPool next({}, Term{8});
  next.Follow(pool);
  EXPECT_EQ(next.Status().short_objects, 0u);
  EXPECT_EQ(next.Status().copies_waiting, 0u);
}

TEST_F(RepairTest, AYoungMasterWaitsForWhatIsOnItsWay) {
  pool.AddNodes(3, 100 * kBlock);
  for (int i = 0; i < 10; ++i) pool.PutSealed(Key(i), 10, {.replicas = 3});
  CopyPool next({}, Term{8});
  next.nodes = std::move(pool.nodes);
  for (const auto& node : next.nodes) node->description.highest_term_seen = Term{7};
  next.Connect(*next.nodes[2]);
  next.Advance(absl::Seconds(4));
  next.Connect(*next.nodes[0]);
  next.Connect(*next.nodes[1]);
  next.Settle();
  EXPECT_EQ(next.Status().totals.copies_started, 0u);
}

TEST_F(RepairTest, ManyObjectsAreTakenInSlices) {
  CopyPool sliced({.work_per_tick = 10});
  sliced.AddNodes(2, 400 * kBlock);
  for (int i = 0; i < 200; ++i) sliced.PutSealed(Key(i), 10, kTwice);
  sliced.AddNodes(1, 400 * kBlock);
  sliced.Disconnect(*sliced.nodes[1]);
  sliced.now += absl::Seconds(6);
  sliced.core.Tick(sliced.now);
  EXPECT_LE(sliced.Status().short_objects, 10u);
  EXPECT_LE(sliced.Status().totals.copies_started, 10u);
  sliced.Settle();
  EXPECT_EQ(sliced.Ended(CopyEnd::kDone), 200u);
}

}  // namespace
}  // namespace moonpool::master
