// Parts that nodes have found damaged: as much of an object is gone as with a node that is lost.
#include <memory>
#include <optional>
#include <vector>

#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {

void Core::PartsLost(NodeId node, SessionId session, absl::Span<const LostPart> parts,
                     absl::Time now) {
  CoreState& s = *state_;
  NodeRecord* const record = s.SessionOf(node, session, now);
  if (record == nullptr) return;
  s.totals.parts_damaged += parts.size();
  if (record->lost == nullptr) record->lost = std::make_unique<LostParts>();
  if (record->lost->Add(parts)) return s.ForgetUnlisted(*record, parts);
  // Its inventory tells what is left.
  s.to_register.push_back(node);
  s.CloseSession(*record, now);
  ++s.totals.inventories_retaken;
  ++s.changes;
}

void CoreState::ForgetUnlisted(const NodeRecord& node, absl::Span<const LostPart> parts) {
  keeper.PartsLost(node);
  for (const LostPart& lost : parts) {
    const auto id = partials.At(node.id, lost.extent.segment.value, lost.extent.offset);
    if (!id.has_value() || id->generation != lost.generation) continue;
    DropPartialAt(node.id, {id->key_hash, id->generation});
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
  while (*work > 0 && node.unproven != nullptr) {
    const std::optional<UnprovenParts::Due> due = node.unproven->TakeDue(now);
    if (!due.has_value()) return;
    --*work;
    const auto& [slot, generation] = due->owner;
    if (objects.FindGeneration(slot, generation) == nullptr) continue;
    bool is_there = false;
    objects.ForEachPart(slot, [&](const StoredPart& part) {
      is_there = is_there || (part.node == node.index && part.segment == due->segment &&
                              part.offset == due->offset);
    });
    if (is_there) LoseReplicas(slot, node.index, now, DeathCause::kDamaged);
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
    bool is_lost = false;
    objects.ForEachPart(slot, [&](const StoredPart& part) {
      is_lost =
          is_lost || (part.node == node.index &&
                      node.lost->Contains(part.segment, part.offset, objects[slot].generation));
    });
    if (is_lost) LoseReplicas(slot, node.index, now, DeathCause::kDamaged);
  }
}

}  // namespace moonpool::master
