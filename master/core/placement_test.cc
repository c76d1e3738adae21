// Where replicas go.
#include <set>
#include <string>

#include "master/core/testing/core_fixture.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

TEST(Placement, TheWritersOwnHostComesFirst) {
  CoreFixture pool;
  pool.AddNode("n1", 100 * kBlock, "h1");
  const NodeHandle own = pool.AddNode("n2", 10 * kBlock, "h2");
  for (int i = 0; i < 10; ++i) {
    const Grant grant = pool.Grab(absl::StrCat("k", i), kBlockPayload, {.host = "h2"});
    EXPECT_EQ(grant.replicas[0].parts[0].node, own.id);
    ASSERT_THAT(pool.Commit(grant), IsOk());
  }
  EXPECT_NE(pool.Grab("more", kBlockPayload, {.host = "h2"}).replicas[0].parts[0].node, own.id);
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 0u);
}

TEST(Placement, TwoChoicesFillNodesEvenly) {
  CoreFixture pool;
  for (int i = 0; i < 8; ++i) pool.AddNode(absl::StrCat("n", i), 200 * kBlock);
  for (int i = 0; i < 800; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  }
  for (const NodeStatus& node : pool.core.ListNodes(pool.now)) {
    EXPECT_GT(node.used_bytes, 80 * kBlock) << node.address.name;
    EXPECT_LT(node.used_bytes, 120 * kBlock) << node.address.name;
  }
}

TEST(Placement, ReplicasStandApart) {
  CoreFixture pool;
  const NodeHandle nodes[] = {
      pool.AddNode("n1", 100 * kBlock, "h1", "r1"), pool.AddNode("n2", 100 * kBlock, "h1", "r1"),
      pool.AddNode("n3", 100 * kBlock, "h2", "r1"), pool.AddNode("n4", 100 * kBlock, "h3", "r2")};
  for (int i = 0; i < 20; ++i) {
    const Grant two = pool.Grab(absl::StrCat("two", i), 10, {.replicas = 2});
    std::set<NodeId> on;
    for (const Replica& replica : two.replicas) on.insert(replica.parts[0].node);
    EXPECT_TRUE(on.contains(nodes[3].id)) << "the only node in another rack";
    EXPECT_EQ(on.size(), 2u);
    const Grant four = pool.Grab(absl::StrCat("four", i), 10, {.replicas = 4});
    on.clear();
    for (const Replica& replica : four.replicas) on.insert(replica.parts[0].node);
    EXPECT_EQ(on.size(), 4u);
  }
}

TEST(Placement, ReplicasOfAFullPoolAreEvictedFor) {
  CoreFixture pool;
  for (const char* name : {"n1", "n2", "n3"}) pool.AddNode(name, 10 * kBlock);
  for (int i = 0; i < 30; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  for (int i = 0; i < 30; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("r", i), kBlockPayload, {.replicas = 3}), IsOk()) << i;
  }
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Placement, LargeObjectsAreSpreadOverNodes) {
  CoreFixture pool({.stripe_bytes = 4 * kBlock});
  for (const char* name : {"n1", "n2", "n3", "n4"}) pool.AddNode(name, 100 * kBlock);
  const Grant grant = pool.Grab("large", 16 * kBlock);
  std::set<NodeId> on;
  uint64_t payload = 0;
  for (const Part& part : grant.replicas[0].parts) {
    on.insert(part.node);
    payload += part.extent.payload_bytes();
  }
  EXPECT_EQ(on.size(), 4u);
  EXPECT_EQ(payload, 16 * kBlock);
  const Grant twice = pool.Grab("twice", 16 * kBlock, {.replicas = 2});
  ASSERT_EQ(twice.replicas.size(), 2u);
  on.clear();
  for (const Part& part : twice.replicas[0].parts) on.insert(part.node);
  for (const Part& part : twice.replicas[1].parts) EXPECT_FALSE(on.contains(part.node));
}

TEST(Placement, ANodeThatIsStillReportingGetsNothing) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const NodeHandle late = pool.Register(CoreFixture::Description("n2", {100 * kBlock}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(pool.Grab(absl::StrCat("k", i), 1).replicas[0].parts[0].node, late.id);
  }
}

TEST(Placement, AReplicaMayTakeSeveralSegmentsAndNodes) {
  CoreFixture pool({.min_part_bytes = 1024});
  const NodeHandle n1 =
      pool.Register(CoreFixture::Description("n1", {4 * kBlock, 4 * kBlock, 4 * kBlock}));
  pool.Complete(n1);
  const Grant segments = pool.Grab("a", 10 * kBlock);
  EXPECT_EQ(segments.replicas[0].parts.size(), 3u);
  pool.AddNode("n2", 4 * kBlock);
  ASSERT_THAT(pool.Abort(segments), IsOk());
  EXPECT_EQ(pool.Grab("b", 15 * kBlock).replicas[0].parts.size(), 4u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// Which share of this many puts a node gets.
double ShareOf(CoreFixture& pool, NodeId node, const std::string& prefix, int puts = 400) {
  int there = 0;
  for (int i = 0; i < puts; ++i) {
    const Grant grant = pool.Grab(absl::StrCat(prefix, i), 10);
    there += grant.replicas[0].parts[0].node == node ? 1 : 0;
    EXPECT_THAT(pool.Commit(grant), IsOk());
  }
  return static_cast<double>(there) / puts;
}

TEST(Placement, ANodeThatComesEmptyGrowsIntoItsShare) {
  CoreFixture pool;
  for (int i = 0; i < 7; ++i) pool.AddNode(absl::StrCat("n", i), 1000 * kBlock);
  pool.Advance(absl::Minutes(2));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  }
  const NodeId fresh = pool.AddNode("fresh", 1000 * kBlock).id;
  // It is the emptiest by far: whenever it is looked at it would be taken.
  const double first = ShareOf(pool, fresh, "first");
  EXPECT_LT(first, 0.05);
  pool.Advance(absl::Seconds(20));
  const double third = ShareOf(pool, fresh, "third");
  EXPECT_GT(third, first);
  EXPECT_LT(third, 0.125);
  pool.Advance(absl::Seconds(41));
  // As any other that is as empty, from now on: two choices of eight nodes.
  EXPECT_NEAR(ShareOf(pool, fresh, "last"), 0.25, 0.08);
}

TEST(Placement, AnEmptyNodeIsFilledWhenOthersHaveNoRoom) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  pool.Advance(absl::Minutes(2));
  for (int i = 0; i < 10; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  const NodeId fresh = pool.AddNode("fresh", 10 * kBlock).id;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(pool.Grab(absl::StrCat("new", i), kBlockPayload).replicas[0].parts[0].node, fresh);
  }
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 0u);
}

TEST(Placement, NodesThatComeTogetherAreEqual) {
  CoreFixture pool;
  NodeId last;
  for (int i = 0; i < 8; ++i) last = pool.AddNode(absl::StrCat("n", i), 1000 * kBlock).id;
  EXPECT_NEAR(ShareOf(pool, last, "k"), 0.125, 0.05);
}

TEST(Placement, ANodeThatBringsWhatItHeldIsNotNew) {
  CoreFixture pool;
  for (int i = 0; i < 7; ++i) pool.AddNode(absl::StrCat("n", i), 1000 * kBlock);
  pool.Advance(absl::Minutes(2));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  }
  const NodeHandle back = pool.Register(CoreFixture::Description("back", {1000 * kBlock}));
  const SealedPart held[] = {OldPart("old")};
  pool.core.InventorySlice(back.id, back.session, held, pool.now);
  pool.Complete(back);
  EXPECT_NEAR(ShareOf(pool, back.id, "new"), 0.25, 0.08);
}

}  // namespace
}  // namespace moonpool::master
