// Nodes that are to be empty: what they hold moves to others, the hottest first.
#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "master/core/core.h"
#include "master/core/core_state.h"
#include "master/core/replica_keeper.h"

namespace moonpool::master {
namespace {

// Objects that wait for their turn to move, so that the queue holds no whole nodes.
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
  for (auto& [name, drain] : drains_.drains()) {
    NodeRecord* const node = core_.nodes.FindByName(name);
    if (node != nullptr && *work > 0) WalkNode(*node, drain, now, work);
  }
}

void ReplicaKeeper::WalkNode(NodeRecord& node, Drain& drain, absl::Time now, uint32_t* work) {
  const auto queued = [&] {
    return queue_.CountOf(kDrainHotRank) + queue_.CountOf(kDrainColdRank);
  };
  if (drain.walk == Drain::Walk::kPause) {
    if (now < drain.resumes_at) return;
    drain.walk = Drain::Walk::kHot;
    drain.unwalked = SIZE_MAX;
    drain.stuck = std::exchange(drain.found, {});
  }
  drain.unwalked = std::min(drain.unwalked, node.parts.size());
  while (*work > 0 && drain.unwalked > 0 && queued() < kAhead) {
    --*work;
    const SlotIndex slot = node.parts[--drain.unwalked];
    const ObjectSlot& object = core_.objects[slot];
    const bool is_hot = heat_.WindowsSince(object.heat, Age()) <= 1;
    const bool is_for_this_walk = is_hot || drain.walk == Drain::Walk::kAll;
    if (object.state != ObjectState::kLive || !is_for_this_walk) continue;
    // Also those that wait for something: that may have come to pass, else it is said again.
    if (copies_.Find(slot) == nullptr) queue_.Add(slot, is_hot ? kDrainHotRank : kDrainColdRank);
  }
  if (drain.unwalked > 0 || queued() > 0) return;
  if (drain.walk == Drain::Walk::kHot) {
    drain.walk = Drain::Walk::kAll;
    drain.unwalked = SIZE_MAX;
    drain.found = {};
    return WalkNode(node, drain, now, work);
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
