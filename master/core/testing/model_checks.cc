// What must hold in the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/testing/status_matchers.h"
#include "master/core/testing/model.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kRest = absl::Seconds(30);

}  // namespace

Model::NamedObjects Model::NamedNow() {
  NamedObjects named;
  const auto listed = core_->ListObjects({}, now_);
  for (const ObjectEntry& entry : listed->objects) {
    named[entry.key] = {entry.generation, core_->Why("", entry.key, now_)->replicas};
  }
  return named;
}

bool Model::IsWhole(Generation generation, const Replica& replica, bool in_session) {
  return std::all_of(replica.parts.begin(), replica.parts.end(), [&](const Part& part) {
    const FakeNode* const node = NodeOf(part.node);
    return node != nullptr && (node->is_connected || !in_session) &&
           !forgotten_.contains(node->description.name) && node->Holds(generation, part.extent);
  });
}

bool Model::HasWholeCut(const Named& named) {
  // Per cut: where its parts that are left begin and end.
  std::map<uint32_t, std::map<uint64_t, uint64_t>> cuts;
  for (const Replica& replica : named.replicas) {
    for (const Part& part : replica.parts) {
      if (!IsWhole(named.generation, {{part}}, /*in_session=*/true)) continue;
      const SealedRecord& record = *NodeOf(part.node)->Find(named.generation, part.extent);
      cuts[record.replica_index][record.object_offset] =
          record.object_offset + part.extent.payload_bytes();
    }
  }
  return std::any_of(cuts.begin(), cuts.end(), [&](const auto& cut) {
    uint64_t end = 0;
    for (const auto& [first, last] : cut.second) {
      if (first == end) end = last;
    }
    return end == sizes_.at(named.generation) && cut.second.contains(0);
  });
}

void Model::ExpectExcused(const NamedObjects& before) {
  for (const auto& [key, named] : before) {
    const WhyResult why = *core_->Why("", key, now_);
    if (why.state == "evicted") continue;
    // A part that was written under a spare grant may have taken the place of what went before it.
    if (why.state == "stored" || why.state == "being_written") {
      ASSERT_GE(why.generation, named.generation) << key;
      continue;
    }
    ASSERT_TRUE(why.state == "node_lost" || why.state == "damaged") << key << " is " << why.state;
    ASSERT_FALSE(HasWholeCut(named))
        << key << " " << ToString(named.generation) << " is " << why.state << ", and was whole";
  }
}

void Model::Rest() {
  const absl::Time end = now_ + kRest;
  while (now_ < end || !AreAllHere()) {
    ASSERT_LT(now_, end + kRest) << "a node is not let in";
    PassTime(absl::Milliseconds(500));
    Settle();
    if (testing::Test::HasFatalFailure()) return;
  }
  const NamedObjects named = NamedNow();
  ExpectReplicasWhole(named);
  ExpectNothingHidden(named);
  ExpectWishesMet();
  ExpectDrained();
  ASSERT_TRUE(removals_.empty());
  Check();
}

void Model::ExpectReplicasWhole(const NamedObjects& named) {
  for (const auto& [key, object] : named) {
    for (const Replica& replica : object.replicas) {
      ASSERT_TRUE(IsWhole(object.generation, replica, /*in_session=*/true))
          << key << " " << ToString(object.generation) << " at "
          << NodeOf(replica.parts[0].node)->description.name << " "
          << ToString(replica.parts[0].extent) << ", the first of " << replica.parts.size()
          << " parts";
    }
  }
}

// Nodes hold nothing of what is stored that the master does not know, unless they have a part of
// the same generation that it knows: a node forgets by generation.
void Model::ExpectNothingHidden(const NamedObjects& named) {
  for (const auto& node : nodes_) {
    for (const auto& [place, record] : node->records()) {
      const auto object = named.find(record.key);
      if (object == named.end() || object->second.generation != record.generation) continue;
      bool is_named = false;
      for (const Replica& replica : object->second.replicas) {
        for (const Part& part : replica.parts) is_named = is_named || part.node == node->id;
      }
      ASSERT_TRUE(is_named) << record.key << " " << ToString(record.generation) << " at "
                            << node->description.name << " " << ToString(record.extent);
    }
  }
}

void Model::ExpectFollowed() {
  follower_->CatchUp(*core_, 6);
  ASSERT_TRUE(follower_->last().is_whole);
  const NamedObjects named = NamedNow();
  ASSERT_EQ(follower_->stored().size(), named.size());
  for (const auto& [key, object] : named) {
    const auto told = follower_->stored().find(key);
    ASSERT_TRUE(told != follower_->stored().end()) << key << " was not told";
    ASSERT_EQ(told->second, object.generation) << key;
  }
}

bool Model::HasRoomElsewhere(const ObjectEntry& entry) {
  // For all its parts, next to each other.
  const uint64_t need = entry.size_bytes + entry.parts / entry.replicas * 2 * kPartHeaderBytes;
  const std::vector<NodeStatus> nodes = core_->ListNodes(now_);
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeStatus& node) {
    const std::string& name = node.address.name;
    const bool is_holder =
        std::find(entry.nodes.begin(), entry.nodes.end(), name) != entry.nodes.end();
    return !is_holder && !draining_.contains(name) &&
           std::any_of(node.segments.begin(), node.segments.end(),
                       [&](const auto& segment) { return segment.largest_free_bytes >= need; });
  });
}

void Model::ExpectWishesMet() {
  const auto listed = core_->ListObjects({}, now_);
  for (const ObjectEntry& entry : listed->objects) {
    if (entry.replicas < entry.wished_replicas) {
      ASSERT_FALSE(HasRoomElsewhere(entry))
          << entry.key << " has " << entry.replicas << " of " << entry.wished_replicas
          << " replicas on " << absl::StrJoin(entry.nodes, " ");
    }
    if (draining_.empty()) {
      ASSERT_LE(entry.replicas, entry.wished_replicas) << entry.key;
    }
  }
}

void Model::ExpectDrained() {
  const auto listed = core_->ListObjects({}, now_);
  for (const ObjectEntry& entry : listed->objects) {
    const bool is_drained =
        std::none_of(entry.nodes.begin(), entry.nodes.end(),
                     [&](const auto& name) { return draining_.contains(name); });
    ASSERT_TRUE(is_drained || !HasRoomElsewhere(entry))
        << entry.key << " stays at " << absl::StrJoin(entry.nodes, " ");
  }
}

}  // namespace moonpool::master
