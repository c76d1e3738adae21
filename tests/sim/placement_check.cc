#include "tests/sim/placement_check.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"

namespace moonpool::sim {
namespace {

using master::NodeStatus;
using master::ObjectEntry;

// The nodes of a leader, and what they could still take.
class Nodes {
 public:
  Nodes(const master::Core& leader, absl::Time now) {
    for (NodeStatus& node : leader.ListNodes(now)) by_id_.emplace(node.address.node, node);
  }

  const NodeStatus& operator[](NodeId id) const { return by_id_.at(id); }

  // A node that holds nothing of the object and has a hole for the whole of it. nullptr: none.
  const NodeStatus* WithRoomFor(const ObjectEntry& object) const {
    // Each part may have been rounded up, and has a header.
    const uint64_t need = object.size_bytes + object.parts * 2 * kPartHeaderBytes;
    for (const auto& [id, node] : by_id_) {
      if (!TakesCopies(node)) continue;
      const bool holds = std::find(object.nodes.begin(), object.nodes.end(), node.address.name) !=
                         object.nodes.end();
      const bool has_room = std::any_of(
          node.segments.begin(), node.segments.end(),
          [&](const master::SegmentStatus& segment) { return segment.largest_free_bytes >= need; });
      if (!holds && has_room) return &node;
    }
    return nullptr;
  }

  // How far apart nodes are: 0 on one host, 1 on two, 2 in two racks as well.
  static int Distance(const NodeStatus& a, const NodeStatus& b) {
    if (a.address.host_id == b.address.host_id) return 0;
    return a.rack.empty() || b.rack.empty() || a.rack == b.rack ? 1 : 2;
  }
  int Distance(const master::Replica& a, const master::Replica& b) const {
    int least = 2;
    for (const master::Part& here : a.parts) {
      for (const master::Part& there : b.parts) {
        least = std::min(least, Distance(by_id_.at(here.node), by_id_.at(there.node)));
      }
    }
    return least;
  }
  // The farthest that any node is from all of the replica's.
  int FarthestFrom(const master::Replica& replica) const {
    int farthest = 0;
    for (const auto& [id, node] : by_id_) {
      if (!TakesCopies(node)) continue;
      int least = 2;
      for (const master::Part& part : replica.parts) {
        least = std::min(least, Distance(node, by_id_.at(part.node)));
      }
      farthest = std::max(farthest, least);
    }
    return farthest;
  }

  const std::map<NodeId, NodeStatus>& by_id() const { return by_id_; }

 private:
  static bool TakesCopies(const NodeStatus& node) {
    return node.is_up && node.inventory_complete && !node.drain.has_value();
  }

  std::map<NodeId, NodeStatus> by_id_;
};

std::vector<ObjectEntry> AllObjects(const master::Core& leader, absl::Time now) {
  std::vector<ObjectEntry> objects;
  std::string token;
  do {
    auto page = leader.ListObjects({.page_token = token}, now);
    // A pool that was never written to has no namespace.
    if (!page.ok()) break;
    std::move(page->objects.begin(), page->objects.end(), std::back_inserter(objects));
    token = page->next_page_token;
  } while (!token.empty());
  return objects;
}

std::string CheckApart(const ObjectEntry& object, const master::Replicas& replicas,
                       const Nodes& nodes, bool is_spread, bool* is_apart) {
  *is_apart = true;
  for (size_t i = 0; i < replicas.size(); ++i) {
    for (size_t j = i + 1; j < replicas.size(); ++j) {
      const int distance = nodes.Distance(replicas[i], replicas[j]);
      // Which of them was there first is not known.
      const int possible =
          std::min(nodes.FarthestFrom(replicas[i]), nodes.FarthestFrom(replicas[j]));
      *is_apart = *is_apart && distance > 0 && distance >= possible;
      if (is_spread && distance < possible) {
        return absl::StrCat(object.key, " has two replicas closer to each other than need be, on ",
                            absl::StrJoin(object.nodes, " and "));
      }
    }
  }
  return "";
}

std::string CheckReplicas(const ObjectEntry& object, const master::Replicas& replicas,
                          const Nodes& nodes, bool is_spread, PlacementCheck::Sum* sum) {
  std::set<NodeId> taken;
  for (const master::Replica& replica : replicas) {
    std::set<NodeId> own;
    for (const master::Part& part : replica.parts) own.insert(part.node);
    for (const NodeId node : own) {
      if (taken.insert(node).second) continue;
      return absl::StrCat(object.key, " has two replicas on ", nodes[node].address.name);
    }
  }
  bool is_apart = false;
  std::string wrong = CheckApart(object, replicas, nodes, is_spread, &is_apart);
  if (!wrong.empty()) return wrong;
  const auto staying = static_cast<uint32_t>(
      std::count_if(replicas.begin(), replicas.end(), [&](const master::Replica& replica) {
        return std::none_of(replica.parts.begin(), replica.parts.end(),
                            [&](const auto& part) { return nodes[part.node].drain.has_value(); });
      }));
  if (staying >= object.wished_replicas) {
    if (replicas.size() > object.wished_replicas) {
      return absl::StrCat(object.key, " has ", replicas.size(), " replicas, and ",
                          object.wished_replicas, " were asked for");
    }
    if (replicas.size() < 2) return "";
    ++sum->replicated;
    sum->spread += is_apart ? 1 : 0;
    return "";
  }
  if (const NodeStatus* const node = nodes.WithRoomFor(object)) {
    return absl::StrCat(object.key, " has ", staying, " replicas that may stay, ",
                        object.wished_replicas, " were asked for, and ", node->address.name,
                        " has room");
  }
  ++sum->without_room;
  return "";
}

}  // namespace

std::string PlacementCheck::Watch(const master::Core& leader, uint64_t reign, absl::Time now) {
  if (std::exchange(reign_, reign) != reign) granted_.clear();
  std::map<std::string, uint64_t> granted;
  for (const NodeStatus& node : leader.ListNodes(now)) {
    if (!node.drain.has_value()) continue;
    const std::string& name = node.address.name;
    const auto before = granted_.find(name);
    if (before != granted_.end() && node.granted_bytes > before->second) {
      return absl::StrCat(name, " is drained, and was granted something");
    }
    granted.emplace(name, node.granted_bytes);
  }
  granted_ = std::move(granted);
  return "";
}

std::string PlacementCheck::AtTheEnd(const master::Core& leader, absl::Time now,
                                     const Demands& demands, Sum* sum) {
  const Nodes nodes(leader, now);
  for (const ObjectEntry& object : AllObjects(leader, now)) {
    const auto why = leader.Why("", object.key, now);
    MP_CHECK(why.ok(), "an object that is listed", why.status().ToString());
    if (demands.knows_wishes && object.wished_replicas < demands.wished(object.key)) {
      return absl::StrCat(object.key, " shall have ", object.wished_replicas, " replicas, and ",
                          demands.wished(object.key), " were asked for");
    }
    std::string wrong = CheckReplicas(object, why->replicas, nodes, demands.is_spread, sum);
    if (!wrong.empty()) return wrong;
  }
  for (const auto& [id, node] : nodes.by_id()) {
    if (!node.drain.has_value()) continue;
    if (node.drain->is_done) {
      ++sum->drained_empty;
      continue;
    }
    ++sum->drained_stuck;
    // Parts of which the rest is missing are waited for, longer than a run's calm lasts.
    const bool is_partial = node.drain->parts_left == 0 && node.granted_bytes == 0;
    if (is_partial && node.drain->bytes_left > 0) continue;
    // Why it is there was looked at object by object; the operator has to be told, too.
    if (node.is_up && node.drain->without_node + node.drain->without_room == 0) {
      return absl::StrCat(
          node.address.name, " is drained and holds ", node.drain->parts_left, " parts (",
          node.drain->bytes_left, " bytes), for no stated reason; ",
          node.inventory_complete ? "its inventory is complete" : "its inventory is on the way");
    }
  }
  return "";
}

}  // namespace moonpool::sim
