#include "master/core/stand_ins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "common/random.h"

namespace moonpool::master {
namespace {

// The nodes of each replica's parts.
using Nodes = std::vector<std::vector<NodeIndex>>;

StoredParts PartsAt(const Nodes& replicas) {
  StoredParts parts;
  for (size_t r = 0; r < replicas.size(); ++r) {
    for (size_t i = 0; i < replicas[r].size(); ++i) {
      // No two places are the same.
      parts.push_back(StoredPart{.offset = 4096 * parts.size(),
                                 .length = 1024,
                                 .node = replicas[r][i],
                                 .replica = static_cast<uint8_t>(r)});
    }
  }
  return parts;
}

Nodes NodesOf(const StoredParts& parts, size_t replicas) {
  Nodes nodes(replicas);
  for (const StoredPart& part : parts) nodes[part.replica].push_back(part.node);
  return nodes;
}

// In how many replicas too many nodes are.
size_t Shared(const Nodes& replicas) {
  size_t shared = 0;
  std::set<NodeIndex> taken;
  for (const auto& replica : replicas) {
    for (const NodeIndex node : std::set<NodeIndex>(replica.begin(), replica.end())) {
      if (!taken.insert(node).second) ++shared;
    }
  }
  return shared;
}

// Of two replicas, over all there is to exchange.
size_t LeastShared(const Nodes& nodes) {
  size_t least = SIZE_MAX;
  for (uint32_t flips = 0; flips < 1u << nodes[0].size(); ++flips) {
    Nodes other = nodes;
    for (size_t i = 0; i < nodes[0].size(); ++i) {
      if ((flips >> i & 1) != 0) std::swap(other[0][i], other[1][i]);
    }
    least = std::min(least, Shared(other));
  }
  return least;
}

TEST(StandIns, NoNodeKeepsPartsOfTwoReplicasThatCanBeExchanged) {
  StoredParts parts = PartsAt({{2, 3, 2}, {1, 4, 3}});
  ASSERT_TRUE(KeepApart(parts));
  EXPECT_EQ(Shared(NodesOf(parts, 2)), 0u);
  EXPECT_FALSE(KeepApart(parts));
}

TEST(StandIns, PartsOfAnotherCutAreNotExchanged) {
  StoredParts parts = PartsAt({{2, 3}, {3, 2}});
  for (StoredPart& part : parts) part.cut = part.replica;
  EXPECT_FALSE(KeepApart(parts));
  for (StoredPart& part : parts) part.cut = 0;
  EXPECT_TRUE(KeepApart(parts));
}

TEST(StandIns, WhatCannotBeHelpedStaysAsItIs) {
  StoredParts parts = PartsAt({{1, 2}, {1, 2}});
  EXPECT_FALSE(KeepApart(parts));
  EXPECT_EQ(NodesOf(parts, 2), (Nodes{{1, 2}, {1, 2}}));
}

// Every part is still there, in its position, and replica follows replica.
void ExpectTheSame(const StoredParts& before, const StoredParts& after, size_t positions) {
  ASSERT_EQ(before.size(), after.size());
  for (size_t at = 0; at < after.size(); ++at) EXPECT_EQ(after[at].replica, before[at].replica);
  for (size_t i = 0; i < positions; ++i) {
    std::set<uint64_t> had, has;
    for (size_t at = i; at < after.size(); at += positions) {
      had.insert(before[at].offset);
      has.insert(after[at].offset);
    }
    EXPECT_EQ(had, has);
  }
}

TEST(StandIns, TwoReplicasAreApartWhereTheyCanBe) {
  Random random(7);
  size_t apart = 0;
  size_t helped = 0;
  for (int round = 0; round < 20'000; ++round) {
    Nodes nodes(2, std::vector<NodeIndex>(1 + random.Below(6)));
    const uint64_t count = 2 + random.Below(8);
    for (auto& replica : nodes) {
      for (NodeIndex& node : replica) node = static_cast<NodeIndex>(1 + random.Below(count));
    }
    const StoredParts before = PartsAt(nodes);
    StoredParts parts = before;
    const bool has_changed = KeepApart(parts);
    ExpectTheSame(before, parts, nodes[0].size());
    const size_t shared = Shared(NodesOf(parts, 2));
    if (LeastShared(nodes) == 0) {
      ASSERT_EQ(shared, 0u) << round;
      ++apart;
    }
    ASSERT_EQ(shared < Shared(nodes), has_changed) << round;
    helped += has_changed ? 1 : 0;
  }
  EXPECT_GT(apart, 1000u);
  EXPECT_GT(helped, 1000u);
}

TEST(StandIns, OfManyReplicasNoneIsWorseOff) {
  Random random(8);
  for (int round = 0; round < 2000; ++round) {
    Nodes nodes(3 + random.Below(3), std::vector<NodeIndex>(1 + random.Below(5)));
    for (auto& replica : nodes) {
      for (NodeIndex& node : replica) node = static_cast<NodeIndex>(1 + random.Below(12));
    }
    const StoredParts before = PartsAt(nodes);
    StoredParts parts = before;
    const bool has_changed = KeepApart(parts);
    ExpectTheSame(before, parts, nodes[0].size());
    const size_t shared = Shared(NodesOf(parts, nodes.size()));
    ASSERT_EQ(shared < Shared(nodes), has_changed) << round;
  }
}

}  // namespace
}  // namespace moonpool::master
