// CheckInvariants: everything is counted again from the slots up. For tests and the simulator.
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

template <typename... Values>
absl::Status Broken(const Values&... values) {
  return absl::InternalError(absl::StrCat("invariant: ", values...));
}

// What the slots, partial objects and condemned extents say, to be held against the counters.
struct Recount {
  struct Place {
    uint64_t length = 0;
    SlotIndex owner = kNoSlot;
  };
  std::map<std::pair<NodeIndex, uint16_t>, std::map<uint64_t, Place>> extents;  // by offset
  std::map<NodeIndex, BytesByUse> node_bytes;
  std::map<NodeIndex, uint64_t> node_parts;
  std::map<NodeIndex, uint32_t> node_copies;
  BytesByUse bytes = {};
  std::map<NamespaceId, std::pair<uint64_t, uint64_t>> name_spaces;  // objects, bytes
  std::map<SlotIndex, std::pair<uint32_t, uint32_t>> children;       // live, open
  uint64_t live = 0;
  uint64_t adopted = 0;
  uint64_t live_parents = 0;
  uint64_t granted = 0;
  uint64_t spares = 0;  // of those
  uint64_t spare_bytes = 0;
  uint64_t short_objects = 0;
  uint64_t leased = 0;
  uint32_t used_slots = 0;

  absl::Status Add(const StoredPart& part, ByteUse use, SlotIndex owner) {
    const uint64_t length = ExtentAllocator::Rounded(part.length);
    if (!extents[{part.node, part.segment}].emplace(part.offset, Place{length, owner}).second) {
      return Broken("two extents start at ", part.offset, " of node ", part.node);
    }
    node_bytes[part.node][static_cast<size_t>(use)] += length;
    bytes[static_cast<size_t>(use)] += length;
    return absl::OkStatus();
  }
};

absl::Status CountSlot(const CoreState& s, SlotIndex slot, Recount& count) {
  const ObjectSlot& object = s.objects[slot];
  if (object.state == ObjectState::kFree) return absl::OkStatus();
  ++count.used_slots;
  if (s.objects.Find(object.name_space, s.objects.KeyOf(slot)) != slot) {
    return Broken("slot ", slot, " is not found by its key");
  }
  const bool is_live = object.state == ObjectState::kLive;
  const bool is_granted = object.state == ObjectState::kGranted;
  const StoredParts parts = s.objects.PartsOf(slot);
  if ((is_live || is_granted) == parts.empty()) return Broken("parts of slot ", slot);
  if (is_live || is_granted) {
    if (object.generation > Generation::Of(s.term, s.counter)) return Broken("future generation");
    if (object.parent != kNoSlot) {
      auto& [live, open] = count.children[object.parent];
      ++(is_live ? live : open);
    }
  } else if (object.parent != kNoSlot || object.live_children + object.open_children == 0) {
    return Broken("absent slot ", slot, " is of no use");
  }
  for (const StoredPart& part : parts) {
    RETURN_IF_ERROR(count.Add(part, is_live ? ByteUse::kLive : ByteUse::kGranted, slot));
    const NodeRecord& node = s.nodes[part.node];
    if (part.position >= node.parts.size() || node.parts[part.position] != slot) {
      return Broken("slot ", slot, " is not at its position of node ", part.node);
    }
    ++count.node_parts[part.node];
    // Numbers of our own may have been forged before they were granted.
    if (object.is_adopted && s.debts.IsOwed(node.id, {s.objects.HashOf(slot), object.generation})) {
      return Broken("slot ", slot, " has a part that node ", part.node, " is to forget");
    }
  }
  if (is_granted) {
    ++count.granted;
    if (s.IsSpare(slot)) {
      const SpareTable::Spare* const spare = s.spares.Find(object.generation);
      if (spare == nullptr || spare->slot != slot) return Broken("spare of slot ", slot);
      ++count.spares;
      count.spare_bytes += s.FootprintOf(slot);
    }
    const OpenGrant& grant = s.grants.At(slot);
    if (grant.min_replicas > s.ReplicaCount(slot)) return Broken("hopeless grant");
    if (grant.generation != object.generation || s.grants.OldestOpen() > object.generation) {
      return Broken("generation of the grant of slot ", slot);
    }
  }
  if (object.is_leased != (s.leases.Find(slot) != nullptr)) return Broken("lease of slot ", slot);
  if (object.is_leased) ++count.leased;
  if (!is_live) return absl::OkStatus();
  ++count.live;
  if (object.is_adopted) ++count.adopted;
  const uint32_t have = s.ReplicaCount(slot);
  const bool is_short = have < object.wished();
  if (is_short != object.is_short) return Broken("slot ", slot, " has another number of replicas");
  if (is_short) ++count.short_objects;
  const bool is_as_it_shall_be = have == object.wished() + object.extra;
  if (!is_as_it_shall_be && !s.keeper.IsCared(slot)) {
    return Broken("nobody looks after slot ", slot);
  }
  if (object.extra > 0 && !s.keeper.hot().contains(slot)) {
    return Broken("nobody asks whether slot ", slot, " is still hot");
  }
  if (object.live_children + object.open_children > 0) ++count.live_parents;
  auto& [number, live_bytes] = count.name_spaces[object.name_space];
  ++number;
  live_bytes += s.FootprintOf(slot);
  return absl::OkStatus();
}

absl::Status CountOwnerless(const CoreState& s, Recount& count) {
  for (const auto& [id, object] : s.partials.objects()) {
    for (const PartialPart& part : object.parts) {
      if (s.nodes.Find(part.node) == nullptr) continue;
      if (s.debts.IsOwed(part.node, {id.key_hash, id.generation})) {
        return Broken("a part that waits for others is to be forgotten by node ", part.part.node);
      }
      RETURN_IF_ERROR(count.Add(part.part, ByteUse::kPartial, kNoSlot));
    }
  }
  for (const auto& [slot, copy] : s.keeper.copies().copies()) {
    const ObjectSlot* const object = s.objects.FindGeneration(slot, copy.generation);
    if (object == nullptr || object->state != ObjectState::kLive) {
      return Broken("a copy of slot ", slot, ", which is not there");
    }
    for (const CopyPart& part : copy.parts) {
      const NodeRecord& node = s.nodes[part.to.node];
      if (!node.is_up()) return Broken("a copy to a node that is away");
      if (s.partials.HasPartAt({s.objects.HashOf(slot), copy.generation}, node.id)) {
        return Broken("a copy of slot ", slot, " beside a part that waits for others");
      }
      RETURN_IF_ERROR(count.Add(part.to, ByteUse::kGranted, kNoSlot));
      ++count.node_copies[part.to.node];
      ++count.node_copies[part.from];
    }
  }
  for (const auto& [until, extent] : s.condemned) {
    const NodeRecord* node = s.nodes.Find(extent.node);
    if (node == nullptr) continue;
    RETURN_IF_ERROR(count.Add(StoredPart{.offset = extent.offset,
                                         .length = extent.length,
                                         .node = node->index,
                                         .segment = extent.segment},
                              ByteUse::kCondemned, kNoSlot));
  }
  return absl::OkStatus();
}

// Used and free ranges together cover the segment without an overlap.
absl::Status CheckSegment(const NodeSegment& segment,
                          const std::map<uint64_t, Recount::Place>& used) {
  std::map<uint64_t, uint64_t> all(segment.allocator.free_ranges().begin(),
                                   segment.allocator.free_ranges().end());
  for (const auto& [offset, place] : used) {
    if (!all.emplace(offset, place.length).second) return Broken(offset, " is used and free");
  }
  uint64_t expected = 0;
  for (const auto& [offset, length] : all) {
    if (offset != expected) {
      return Broken(segment.spec.segment.value, ": bytes at ", expected, " up to ", offset,
                    " are nobody's, or two owners'");
    }
    expected = offset + length;
  }
  if (expected != segment.allocator.capacity_bytes()) return Broken("segment is not covered");
  return absl::OkStatus();
}

absl::Status CheckNodes(const CoreState& s, Recount& count) {
  for (const auto& record : s.nodes.records()) {
    if (record == nullptr) continue;
    const NodeRecord& node = *record;
    if (node.bytes != count.node_bytes[node.index]) {
      return Broken("bytes of node ", node.description.name);
    }
    if (s.keeper.CopiesOf(node.index) != count.node_copies[node.index]) {
      return Broken("copies of node ", node.description.name);
    }
    if (node.parts.size() != count.node_parts[node.index]) {
      return Broken("parts of node ", node.description.name);
    }
    for (const NodeSegment& segment : node.segments) {
      const auto id = static_cast<uint16_t>(segment.spec.segment.value);
      RETURN_IF_ERROR(CheckSegment(segment, count.extents[{node.index, id}]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCounters(const CoreState& s, Recount& count) {
  if (!s.debts.AddsUp()) return Broken("debts");
  uint32_t unmet = 0;
  for (const auto& [name, node] : s.registry) unmet += node.is_met ? 0 : 1;
  if (unmet != s.unmet_nodes) return Broken("unmet nodes ", s.unmet_nodes, ", counted ", unmet);
  if (!s.keeps_state && !s.registry.empty()) return Broken("a registry that nobody keeps");
  for (const auto& [name, index] : s.nodes.by_name()) {
    if (s.keeps_state && !s.IsRegistered(s.nodes[index].description)) {
      return Broken("node ", name, " is not in the registry");
    }
  }
  if (s.bytes != count.bytes) return Broken("bytes by use");
  if (s.live_objects != count.live) return Broken("live objects");
  if (s.adopted_objects != count.adopted) return Broken("adopted objects");
  if (s.keeper.short_objects() != count.short_objects) return Broken("short objects");
  if (!s.keeper.copies().AddsUp()) return Broken("copies");
  if (s.live_parents != count.live_parents) return Broken("live parents");
  if (s.grants.size() != count.granted) return Broken("open grants");
  if (s.spares.size() != count.spares || s.spares.bytes() != count.spare_bytes) {
    return Broken("spare grants");
  }
  if (s.leases.size() != count.leased) return Broken("leases");
  if (s.objects.used_slots() != count.used_slots) return Broken("used slots");
  if (s.objects.index_size() != count.used_slots) return Broken("index entries");
  for (size_t i = 0; i < s.namespaces.size(); ++i) {
    const auto id = static_cast<NamespaceId>(i);
    const auto& [number, live_bytes] = count.name_spaces[id];
    if (s.namespaces[id].objects != number || s.namespaces[id].live_bytes != live_bytes) {
      return Broken("namespace ", s.namespaces[id].name);
    }
  }
  for (SlotIndex slot = 0; slot < s.objects.slot_count(); ++slot) {
    const ObjectSlot& object = s.objects[slot];
    if (object.state == ObjectState::kFree) continue;
    const auto& [live, open] = count.children[slot];
    if (object.live_children != live || object.open_children != open) {
      return Broken("children of slot ", slot);
    }
  }
  return absl::OkStatus();
}

// The next victim must be one that may go.
absl::Status CheckVictim(const CoreState& s) {
  const std::optional<SlotIndex> victim = s.policy->PickVictim();
  if (!victim.has_value()) return absl::OkStatus();
  const ObjectSlot& object = s.objects[*victim];
  if (object.state != ObjectState::kLive || object.live_children + object.open_children > 0 ||
      object.is_leased || object.is_parked) {
    return Broken("slot ", *victim, " is offered for eviction");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CoreState::Check() const {
  Recount count;
  for (SlotIndex slot = 0; slot < objects.slot_count(); ++slot) {
    RETURN_IF_ERROR(CountSlot(*this, slot, count));
  }
  RETURN_IF_ERROR(CountOwnerless(*this, count));
  RETURN_IF_ERROR(CheckNodes(*this, count));
  RETURN_IF_ERROR(CheckCounters(*this, count));
  return CheckVictim(*this);
}

absl::Status Core::CheckInvariants() const { return state_->Check(); }

}  // namespace moonpool::master
