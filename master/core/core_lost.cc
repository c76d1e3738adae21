// Parts that nodes have found damaged: as much of an object is gone as with a node that is lost.
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
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

bool CoreState::LoseParts(SlotIndex slot, PartTest is_gone, absl::Time now, DeathCause cause) {
  bool is_any_gone = false;
  objects.ForEachPart(slot, [&](const StoredPart& part) { is_any_gone |= is_gone(part); });
  if (!is_any_gone) return false;
  Gather(slot, is_gone);
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
  objects[slot].is_parked = false;
  UpdateEvictable(slot);
  return true;
}

void CoreState::Gather(SlotIndex slot, PartTest is_it) {
  if (objects[slot].state != ObjectState::kLive || !objects[slot].has_list) return;
  StoredParts parts = objects.PartsOf(slot);
  absl::InlinedVector<size_t, kMaxReplicas + 1> firsts;  // of each replica, and the end
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == 0 || parts[i].replica != parts[i - 1].replica) firsts.push_back(i);
  }
  firsts.push_back(parts.size());
  bool has_changed = false;
  for (size_t a = 0; a + 1 < firsts.size(); ++a) {
    const size_t count = firsts[a + 1] - firsts[a];
    for (size_t b = a + 1; b + 1 < firsts.size(); ++b) {
      const bool is_one_cut = parts[firsts[a]].cut == parts[firsts[b]].cut;
      if (!is_one_cut || count == 1 || firsts[b + 1] - firsts[b] != count) continue;
      for (size_t i = 0; i < count; ++i) {
        StoredPart& first = parts[firsts[a] + i];
        StoredPart& second = parts[firsts[b] + i];
        if (is_it(first) || !is_it(second) || first.length != second.length) continue;
        std::swap(first, second);
        std::swap(first.replica, second.replica);
        has_changed = true;
      }
    }
  }
  if (has_changed) objects.SetParts(slot, std::move(parts));
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
