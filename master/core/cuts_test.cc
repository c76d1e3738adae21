// Replicas of several parts, and what is left of them here and there.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/core/testing/copy_pool.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

constexpr uint64_t kSize = 8 * kBlock;

std::vector<NodeId> HoldersOf(CopyPool& pool, size_t replica) {
  const LocateOutcome found = pool.Get("large");
  std::vector<NodeId> holders;
  for (const Part& part : found.location.replicas[replica].parts) {
    holders.push_back(part.node);
  }
  return holders;
}

// A part of a replica that is gone has the number of another replica, and comes first.
TEST(Cuts, WhatIsLeftOfAReplicaDoesNotHideACopy) {
  CopyPool pool({.stripe_bytes = 4 * kBlock});
  pool.AddNodes(4, 100 * kBlock);
  pool.PutSealed("large", kSize, {.replicas = 2});
  const std::vector<NodeId> first = HoldersOf(pool, 0);
  const std::vector<NodeId> second = HoldersOf(pool, 1);
  pool.AddNodes(2, 100 * kBlock);
  ASSERT_EQ(first.size(), 2u);
  pool.Lose(*pool.NodeOf(first[0]));
  pool.Settle();
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 2u);

  // The next master meets the one that was lost, and of the others those of the copy.
  CopyPool next({.stripe_bytes = 4 * kBlock}, Term{8});
  const NodeId lost = first[0];
  const auto is_source = [&](NodeId id) { return id == second[0] || id == second[1]; };
  for (const bool is_lost : {true, false}) {
    for (auto& node : pool.nodes) {
      if (node == nullptr || (node->id == lost) != is_lost || is_source(node->id)) continue;
      next.nodes.push_back(std::move(node));
      next.Connect(*next.nodes.back());
    }
  }
  next.ExpectReadable("large");
  for (auto& node : pool.nodes) {
    if (node == nullptr) continue;
    next.nodes.push_back(std::move(node));
    next.Connect(*next.nodes.back());
  }
  EXPECT_EQ(next.core.ListObjects({}, next.now)->objects[0].wished_replicas, 2u);
  next.Settle(absl::Minutes(2));
  next.ExpectReadable("large");
}

TEST(Cuts, WhatStoodBesideALostPartIsForgotten) {
  CopyPool pool({.stripe_bytes = 4 * kBlock});
  pool.AddNodes(2, 100 * kBlock);
  pool.PutSealed("large", kSize);
  pool.Lose(*pool.nodes[0]);
  pool.Settle();
  EXPECT_TRUE(pool.nodes[1]->Inventory().empty()) << "the next master would look for the rest";
}

TEST(Cuts, WhatIsFoundTwiceUnderOneNumberWasWishedTwice) {
  CopyPool pool({.stripe_bytes = 4 * kBlock});
  pool.AddNodes(4, 100 * kBlock);
  pool.PutSealed("large", kSize, {.replicas = 2});
  for (const NodeId gone : HoldersOf(pool, 1)) pool.Disconnect(*pool.NodeOf(gone));
  pool.Advance(absl::Seconds(6));
  pool.AddNodes(2, 100 * kBlock);
  pool.Settle();
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 2u) << "both of the first one's cut";
  CopyPool next({.stripe_bytes = 4 * kBlock}, Term{8});
  for (auto& node : pool.nodes) {
    if (!node->is_connected) continue;
    next.nodes.push_back(std::move(node));
    next.Connect(*next.nodes.back());
  }
  next.Settle();
  EXPECT_EQ(next.core.ListObjects({}, next.now)->objects[0].wished_replicas, 2u);
  EXPECT_EQ(next.Get("large").location.replicas.size(), 2u);
}

// Which half of one object, and of which cut.
struct Half {
  uint32_t part = 0;
  uint32_t cut = 0;
};

// An older master's node that holds these comes to a new one.
FakeNode& JoinWith(CopyPool& pool, const std::string& name, const std::vector<Half>& halves) {
  RegisterNodeCommand description = OldNode(name);
  description.wire_minor = kCopyMinor;
  pool.nodes.push_back(std::make_unique<FakeNode>(std::move(description)));
  FakeNode& node = *pool.nodes.back();
  uint64_t block = 0;
  for (const Half& half : halves) {
    SealedPart part = OldHalves("large")[half.part];
    part.extent.offset = block++ * kBlock;
    part.replica_index = half.cut;
    part.replicas = 2;
    EXPECT_TRUE(node.Seal(CopyPool::RecordOf(part)));
  }
  pool.Connect(node);
  return node;
}

void LosePart(CopyPool& pool, FakeNode& node, size_t number) {
  const SealedPart part = node.Inventory()[number];
  const LostPart lost[] = {{part.generation, part.extent}};
  node.Forget(lost[0].extent);
  pool.core.PartsLost(node.id, node.session, lost, pool.now);
}

// Two replicas, a half on each of four nodes. Returned are a first half and, of the other replica,
// the second: what is left without them is one replica, wherever its halves were.
std::pair<FakeNode*, FakeNode*> JoinHalves(CopyPool& pool) {
  FakeNode& first = JoinWith(pool, "n0", {{.part = 0}});
  JoinWith(pool, "n1", {{.part = 1}});
  JoinWith(pool, "n2", {{.part = 0}});
  FakeNode& last = JoinWith(pool, "n3", {{.part = 1}});
  EXPECT_EQ(pool.Get("large").location.replicas.size(), 2u);
  return {&first, &last};
}

// Each node is named before the other half of what it holds is: {n1 n0}, {n2 n1} as they meet.
TEST(Cuts, OneReplicaGoesWithANodeThatHoldsOne) {
  CopyPool pool;
  JoinWith(pool, "n0", {{.part = 1}});
  FakeNode& both = JoinWith(pool, "n1", {{.part = 0}, {.part = 1}});
  JoinWith(pool, "n2", {{.part = 0}});
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 2u);
  pool.Disconnect(both);
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 1u);
  pool.ExpectReadable("large");
  pool.Advance(absl::Seconds(6));
  pool.ExpectReadable("large");
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Cuts, WhatIsLeftOfTwoReplicasIsOne) {
  for (const bool is_damaged : {false, true}) {
    CopyPool pool;
    const auto [first, last] = JoinHalves(pool);
    for (FakeNode* const node : {first, last}) {
      is_damaged ? LosePart(pool, *node, 0) : pool.Disconnect(*node);
    }
    pool.Advance(absl::Seconds(6));
    ASSERT_EQ(pool.Get("large").location.replicas.size(), 1u) << is_damaged;
    pool.ExpectReadable("large");
    pool.Settle();
    pool.ExpectReadable("large");
  }
}

// One node after the other is lost, of which none has a part of the other replica.
TEST(Cuts, AReplicaThatIsWholeStaysAsItIs) {
  CopyPool pool;
  JoinWith(pool, "n0", {{.part = 0}, {.part = 1}});
  FakeNode& first = JoinWith(pool, "n1", {{.part = 0}});
  FakeNode& second = JoinWith(pool, "n2", {{.part = 1}});
  pool.Disconnect(first);
  pool.Advance(absl::Seconds(3));
  pool.KeepAlive();
  pool.Disconnect(second);
  const Replicas whole = pool.Get("large").location.replicas;
  ASSERT_EQ(whole.size(), 1u);
  for (int seconds = 1; seconds < 10; ++seconds) {
    pool.Advance(absl::Seconds(1));
    pool.KeepAlive();
    const Replicas found = pool.Get("large").location.replicas;
    ASSERT_EQ(found.size(), 1u) << seconds;
    EXPECT_EQ(found[0].parts, whole[0].parts);
  }
}

// The other one stands on the same node, and is whole.
TEST(Cuts, ADamagedPartTakesItsOwnReplicaOnly) {
  CopyPool pool;
  FakeNode& shared = JoinWith(pool, "n0", {{.part = 0, .cut = 0}, {.part = 0, .cut = 1}});
  JoinWith(pool, "n1", {{.part = 1, .cut = 0}});
  JoinWith(pool, "n2", {{.part = 1, .cut = 1}});
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 2u);
  LosePart(pool, shared, 0);
  pool.Advance(absl::ZeroDuration());
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 1u);
  pool.ExpectReadable("large");
  // So does one that the inventory of a new session does not name.
  shared.Forget(shared.Inventory()[0].extent);
  pool.Disconnect(shared);
  pool.Connect(shared);
  pool.Advance(absl::Seconds(1));
  EXPECT_FALSE(pool.Get("large").status.ok());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// Neither inventory names the part of its node any more; together the others are whole.
TEST(Cuts, WhatTwoInventoriesLeaveOfTwoReplicasIsOne) {
  CopyPool pool;
  const auto [first, last] = JoinHalves(pool);
  for (FakeNode* const node : {first, last}) {
    pool.Disconnect(*node);
    node->Forget(node->Inventory()[0].extent);
  }
  for (FakeNode* const node : {first, last}) pool.Connect(*node);
  pool.Advance(absl::Seconds(1));
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 1u);
  pool.ExpectReadable("large");
  pool.Settle();
  pool.ExpectReadable("large");
}

// One is swept while the other's inventory is still on its way, and will not name its part.
TEST(Cuts, WhatAnInventoryOnItsWayMayNotNameIsNotCountedOn) {
  CopyPool pool;
  const auto [first, last] = JoinHalves(pool);
  for (FakeNode* const node : {first, last}) {
    pool.Disconnect(*node);
    node->Forget(node->Inventory()[0].extent);
  }
  const NodeHandle handle = pool.Register(last->description);
  last->id = handle.id;
  last->session = handle.session;
  last->is_connected = true;
  pool.Connect(*first);
  pool.Advance(absl::Seconds(1));
  pool.Complete(handle);
  pool.Advance(absl::Seconds(1));
  ASSERT_EQ(pool.Get("large").location.replicas.size(), 1u);
  pool.ExpectReadable("large");
}

// A node forgets an object as a whole: it must not have parts of two replicas.
void ExpectApart(CopyPool& pool, size_t replicas) {
  const Replicas found = pool.Get("large").location.replicas;
  EXPECT_EQ(found.size(), replicas);
  std::set<NodeId> taken;
  for (const Replica& replica : found) {
    std::set<NodeId> own;
    for (const Part& part : replica.parts) own.insert(part.node);
    for (const NodeId node : own) EXPECT_TRUE(taken.insert(node).second) << node.value;
  }
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// The other half is on a node that is away. It comes when the only node that could take a copy has
// one, and completes nothing.
TEST(Cuts, WhatWaitsForItsOtherHalfGivesWayToACopy) {
  CopyPool pool;
  JoinWith(pool, "n0", {{.part = 0}, {.part = 1}});
  FakeNode& half = JoinWith(pool, "n1", {{.part = 0}});
  pool.Settle();
  ExpectApart(pool, 2);
  EXPECT_THAT(pool.Holders("large"), testing::ElementsAre("n0", "n1"));
  EXPECT_EQ(half.Inventory().size(), 2u) << "the next master would put the old half together";
  FakeNode& late = JoinWith(pool, "n2", {{.part = 1}});
  ExpectApart(pool, 2);
  pool.Settle(absl::Minutes(2));
  ExpectApart(pool, 2);
  pool.ExpectReadable("large");
  EXPECT_TRUE(late.Inventory().empty()) << "its other half is gone";
}

// As above, but another node is there for the copy.
TEST(Cuts, WhatWaitsForItsOtherHalfStaysWhereTheCopyGoesElsewhere) {
  CopyPool pool;
  JoinWith(pool, "n0", {{.part = 0}, {.part = 1}});
  JoinWith(pool, "n1", {{.part = 0}});
  pool.Join("n2", 10 * kBlock);
  pool.Settle(absl::Seconds(10));
  EXPECT_THAT(pool.Holders("large"), testing::ElementsAre("n0", "n2"));
  JoinWith(pool, "n3", {{.part = 1}});
  ExpectApart(pool, 3);
  pool.Settle();
  ExpectApart(pool, 2);
  pool.ExpectReadable("large");
}

// A part that its node has not named in this session completes nothing.
TEST(Cuts, APartThatItsNodeNamesNoMoreCompletesNothing) {
  CopyPool pool;
  FakeNode& node = JoinWith(pool, "n0", {{.part = 0}});
  pool.Disconnect(node);
  node.Forget(node.Inventory()[0].extent);
  pool.Connect(node);
  pool.Advance(absl::Seconds(1));
  JoinWith(pool, "n1", {{.part = 1}});
  pool.Advance(absl::Seconds(10));
  EXPECT_FALSE(pool.Get("large").status.ok());
  // It does where it is named again, before the other one or after it.
  for (const bool is_last : {false, true}) {
    CopyPool other;
    FakeNode& away = JoinWith(other, "n0", {{.part = 0}});
    other.Disconnect(away);
    if (!is_last) other.Connect(away);
    JoinWith(other, "n1", {{.part = 1}});
    if (is_last) other.Connect(away);
    other.Advance(absl::Seconds(1));
    other.ExpectReadable("large");
    EXPECT_THAT(other.core.CheckInvariants(), IsOk());
  }
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

}  // namespace
}  // namespace moonpool::master
