// Nodes that are to be empty: what they hold moves to others, the hottest first.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "master/core/core.h"
#include "master/core/core_state.h"
#include "master/core/replica_keeper.h"

namespace moonpool::master {
namespace {

// Objects that wait for their turn to move, so that the queue holds no whole nodes. Nodes that are
// drained at the same time have equal shares.
constexpr size_t kAhead = 1024;
// Between two walks, and so much longer for each object that cannot move: looking at those again
// takes a small share of the time.
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr absl::Duration kPausePerStuck = absl::Microseconds(50);

}  // namespace

absl::StatusOr<ChangeNumber> Core::DrainNode(absl::string_view name, bool cancel, absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  NodeRecord* const node = s.nodes.FindByName(name);
  DrainTable& drains = s.keeper.drains();
  const bool is_known = node != nullptr || s.registry.contains(std::string(name));
  if (!is_known && !(cancel && drains.contains(name))) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kBadArgument,
                     absl::StrCat("no node \"", absl::CHexEscape(name), "\""),
                     {.hint = "`moonpool nodes` lists those that this master knows"});
  }
  if (cancel ? drains.Remove(name) : drains.Add(name)) {
    s.drains_saved_by =
        cancel ? s.Save(DrainEnded{std::string(name)}) : s.Save(DurableDrain{std::string(name)});
    if (node != nullptr) s.SetDraining(*node, !cancel);
  }
  return s.drains_saved_by;
}

void CoreState::SetDraining(NodeRecord& node, bool is_draining) {
  node.is_draining = is_draining;
  if (is_draining) keeper.TargetGone(node);
  nodes.Refresh();
  if (!is_draining) keeper.NodesJoined();
  ++changes;
}

std::optional<DrainStatus> ReplicaKeeper::DrainOf(const NodeRecord& node) const {
  const Drain* const drain = drains_.Find(node.description.name);
  if (drain == nullptr) return std::nullopt;
  const auto stuck = [&](StuckBy why) { return drain->stuck[static_cast<size_t>(why)]; };
  return DrainStatus{.is_done = node.is_empty(),
                     .parts_left = node.parts.size(),
                     .bytes_left = node.held_bytes(),
                     .moved_objects = drain->moved_objects,
                     .moved_bytes = drain->moved_bytes,
                     .without_node = stuck(StuckBy::kNoNode),
                     .without_room = stuck(StuckBy::kNoRoom),
                     .unreadable = stuck(StuckBy::kUnreadable),
                     .leased = stuck(StuckBy::kLeased)};
}

void ReplicaKeeper::WalkDrains(absl::Time now, uint32_t* work) {
  std::vector<std::pair<NodeRecord*, Drain*>> walking;
  for (auto& [name, drain] : drains_.drains()) {
    NodeRecord* const node = core_.nodes.FindByName(name);
    const bool is_pause = drain.walk == Drain::Walk::kPause && now < drain.resumes_at;
    if (node != nullptr && !is_pause) walking.emplace_back(node, &drain);
  }
  const size_t most_ahead = std::max<size_t>(kAhead / std::max<size_t>(walking.size(), 1), 1);
  for (size_t i = 0; i < walking.size() && *work > 0; ++i) {
    const auto others = static_cast<uint32_t>(walking.size() - i);
    const uint32_t share = std::max(*work / others, 1u);
    uint32_t left = share;
    WalkNode(*walking[i].first, *walking[i].second, most_ahead, now, &left);
    *work -= share - left;
  }
}

void ReplicaKeeper::WalkNode(NodeRecord& node, Drain& drain, size_t most_ahead, absl::Time now,
                             uint32_t* work) {
  if (drain.walk == Drain::Walk::kPause) {
    drain.walk = Drain::Walk::kHot;
    drain.unwalked = SIZE_MAX;
    drain.stuck = std::exchange(drain.found, {});
  }
  drain.unwalked = std::min(drain.unwalked, node.parts.size());
  std::erase_if(drain.ahead, [&](SlotIndex slot) { return !queue_.IsReady(slot); });
  while (*work > 0 && drain.unwalked > 0 && drain.ahead.size() < most_ahead) {
    --*work;
    const SlotIndex slot = node.parts[--drain.unwalked];
    const ObjectSlot& object = core_.objects[slot];
    const bool is_hot = heat_.WindowsSince(object.heat, Age()) <= 1;
    const bool is_for_this_walk = is_hot || drain.walk == Drain::Walk::kAll;
    if (object.state != ObjectState::kLive || !is_for_this_walk) continue;
    // Also those that wait for something: that may have come to pass, else it is said again.
    if (copies_.Find(slot) != nullptr) continue;
    queue_.Add(slot, is_hot ? kDrainHotRank : kDrainColdRank);
    drain.ahead.push_back(slot);
  }
  if (drain.unwalked > 0 || !drain.ahead.empty()) return;
  if (drain.walk == Drain::Walk::kHot) {
    drain.walk = Drain::Walk::kAll;
    drain.unwalked = SIZE_MAX;
    drain.found = {};
    return WalkNode(node, drain, most_ahead, now, work);
  }
  drain.walk = Drain::Walk::kPause;
  uint64_t stuck = 0;
  for (const uint64_t count : drain.found) stuck += count;
  drain.resumes_at = now + kPause + static_cast<int64_t>(stuck) * kPausePerStuck;
}

void ReplicaKeeper::NoteStuck(const Stand& stand, Turned why) {
  const StuckBy by = why == Turned::kNoNode   ? StuckBy::kNoNode
                     : why == Turned::kNoRoom ? StuckBy::kNoRoom
                     : why == Turned::kLeased ? StuckBy::kLeased
                                              : StuckBy::kUnreadable;
  absl::InlinedVector<NodeIndex, 2> noted;
  for (const ReplicaView& replica : stand.replicas) {
    if (!replica.is_leaving) continue;
    for (const StoredPart& part : replica.parts) {
      const NodeRecord& node = core_.nodes[part.node];
      Drain* const drain = node.is_draining ? drains_.Find(node.description.name) : nullptr;
      if (drain == nullptr || std::find(noted.begin(), noted.end(), part.node) != noted.end()) {
        continue;
      }
      noted.push_back(part.node);
      ++drain->found[static_cast<size_t>(by)];
    }
  }
}

}  // namespace moonpool::master
