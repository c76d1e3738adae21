// Parts that nodes have found damaged: as much of an object is gone as with a node that is lost.
#include <memory>
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
  if (record->lost->Add(parts)) return s.ForgetUnlisted(*record);
  // Its inventory tells what is left.
  s.to_register.push_back(node);
  s.CloseSession(*record, now);
  ++s.totals.inventories_retaken;
  ++s.changes;
}

void CoreState::ForgetUnlisted(const NodeRecord& node) {
  keeper.PartsLost(node);
  std::vector<Debt> broken;
  for (const auto& [id, object] : partials.objects()) {
    for (const PartialPart& held : object.parts) {
      const bool is_lost = held.node == node.id &&
                           node.lost->IsNew(held.part.segment, held.part.offset, id.generation);
      if (is_lost) broken.push_back({id.key_hash, id.generation});
    }
  }
  for (const Debt& debt : broken) DropPartialAt(node.id, debt);
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
