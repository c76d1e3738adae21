// Replicas of several parts, and what is left of them here and there.
#include <utility>
#include <vector>

#include "master/core/testing/copy_pool.h"

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

}  // namespace
}  // namespace moonpool::master
