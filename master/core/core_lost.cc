// Parts that nodes have found damaged: as much of an object is gone as with a node that is lost.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "master/core/core.h"
#include "master/core/core_state.h"
#include "master/core/stand_ins.h"

namespace moonpool::master {

void Core::PartsLost(NodeId node, SessionId session, absl::Span<const LostPart> parts,
                     absl::Time now) {
  CoreState& s = *state_;
  NodeRecord* const record = s.SessionOf(node, session, now);
  if (record == nullptr) return;
  s.totals.parts_damaged += parts.size();
  if (record->lost == nullptr) record->lost = std::make_unique<LostParts>();
  if (record->lost->Add(parts)) return s.ForgetUnlisted(*record, parts);
  s.TakeInventoryAnew(*record, now);  // it tells what is left
}

bool CoreState::LoseParts(SlotIndex slot, PartTest is_gone, absl::Time now, DeathCause cause) {
  bool is_any_gone = false;
  objects.ForEachPart(slot, [&](const StoredPart& part) { is_any_gone |= is_gone(part); });
  if (!is_any_gone) return false;
  Gather(slot, [&](const StoredPart& part) {
    if (is_gone(part)) return 3;
    const NodeRecord& node = nodes[part.node];
    // The sweep comes to one node after the other; what it will find is known.
    const bool is_unnamed = node.seen != nullptr && !HasSeen(slot, part);
    const bool may_be_named = is_unnamed && !node.inventory_complete;
    if (node.state == NodeState::kAway || may_be_named) return 1;
    const bool is_named_lost = node.lost != nullptr && node.lost->Names(part.segment, part.offset,
                                                                        objects[slot].generation);
    return is_unnamed || is_named_lost || !node.is_up() ? 2 : 0;
  });
  bool is_broken[256] = {};
  objects.ForEachPart(slot,
                      [&](const StoredPart& part) { is_broken[part.replica] |= is_gone(part); });
  const uint32_t left = DropReplicas(slot, [&](uint8_t replica) { return is_broken[replica]; });
  if (objects[slot].state == ObjectState::kGranted) {
    if (left < grants.At(slot).min_replicas) Erase(slot, DeathCause::kAborted, now);
    return true;
  }
  if (left == 0) {
    Erase(slot, cause, now);
    ++totals.lost;
    return true;
  }
  // What the bad ones were exchanged for may stand beside others now.
  Disentangle(slot);
  objects[slot].is_parked = false;
  UpdateEvictable(slot);
  return true;
}

bool CoreState::HasStandIns(SlotIndex slot) const {
  return objects[slot].state == ObjectState::kLive && objects[slot].has_list;
}

void CoreState::Gather(SlotIndex slot, absl::FunctionRef<int(const StoredPart&)> badness) {
  if (!HasStandIns(slot)) return;
  StoredParts parts = objects.PartsOf(slot);
  if (GatherBad(parts, badness)) objects.SetParts(slot, std::move(parts));
}

void CoreState::Disentangle(SlotIndex slot) {
  if (!HasStandIns(slot)) return;
  StoredParts parts = objects.PartsOf(slot);
  if (KeepApart(parts)) objects.SetParts(slot, std::move(parts));
}

void CoreState::ForgetUnlisted(const NodeRecord& node, absl::Span<const LostPart> parts) {
  keeper.PartsLost(node);
  for (const LostPart& lost : parts) {
    const auto id = partials.At(node.id, lost.extent.segment.value, lost.extent.offset);
    if (!id.has_value() || id->generation != lost.generation) continue;
    const PartialObject& object = *partials.Find(*id);
    const SlotIndex slot = objects.Find(id->key_hash, object.name_space, object.key);
    const bool is_live = slot != kNoSlot && objects.FindGeneration(slot, id->generation) != nullptr;
    const Debt debt{id->key_hash, id->generation};
    DropPartialAt(node.id, debt);
    // The others that it has of them are whole, and of no use.
    is_live ? Disown(slot, node.index) : Owe(node.index, debt);
  }
}

void CoreState::NoteUnproven(SlotIndex slot, absl::Time now) {
  uint16_t parts[kMaxReplicas] = {};
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    const SealMark mark{.replica = part.replica, .part = parts[part.replica]++};
    NodeRecord& node = nodes[part.node];
    const Generation generation = objects[slot].generation;
    const bool is_proven =
        generation > node.granted_before || grants.SealedIn(slot, mark) == node.session;
    if (!node.is_up() || is_proven) return;
    if (node.unproven == nullptr) node.unproven = std::make_unique<UnprovenParts>();
    node.unproven->Add(part, {slot, generation}, now + options.partial_timeout);
  });
}

void CoreState::LoseUnproven(NodeRecord& node, absl::Time now, uint32_t* work) {
  // Until its inventory is uploaded the node tells nothing else.
  if (!node.inventory_complete || now < node.complete_since + options.partial_timeout) return;
  while (*work > 0 && node.unproven != nullptr) {
    const std::optional<UnprovenParts::Due> due = node.unproven->TakeDue(now);
    if (!due.has_value()) return;
    --*work;
    const auto& [slot, generation] = due->owner;
    if (objects.FindGeneration(slot, generation) == nullptr) continue;
    LoseParts(
        slot,
        [&](const StoredPart& part) {
          return part.node == node.index && part.segment == due->segment &&
                 part.offset == due->offset;
        },
        now, DeathCause::kDamaged);
  }
}

void CoreState::FindLostParts(NodeRecord& node, absl::Time now, uint32_t* work) {
  size_t position = 0;
  while (*work > 0 && node.lost != nullptr) {
    if (!node.lost->Next(node.parts.size(), &position)) {
      node.lost = nullptr;
      return;
    }
    --*work;
    const SlotIndex slot = node.parts[position];
    const Generation generation = objects[slot].generation;
    LoseParts(
        slot,
        [&](const StoredPart& part) {
          return part.node == node.index &&
                 node.lost->Contains(part.segment, part.offset, generation);
        },
        now, DeathCause::kDamaged);
  }
}

}  // namespace moonpool::master
