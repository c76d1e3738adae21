// The life of an object: linked into its chain, attached to nodes, live, gone.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/guard.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

// Longest walk that looks for a circle of parents. A chain may be longer; only a parent that comes
// after its children is looked at, and a walk that does not end leaves it without a parent.
constexpr int kMaxAncestors = 1 << 14;

bool HasChildren(const ObjectSlot& object) {
  return object.live_children + object.open_children > 0;
}

bool IsEvictable(const ObjectSlot& object) {
  const bool is_held = GuardIsOn(Guard::kLease) && object.is_leased;
  return !HasChildren(object) && !is_held && !object.is_parked;
}

}  // namespace

bool CoreState::LeadsTo(SlotIndex from, SlotIndex to) const {
  for (int steps = 0; from != kNoSlot; from = objects[from].parent) {
    if (from == to || ++steps > kMaxAncestors) return true;
  }
  return false;
}

bool CoreState::LinkParent(SlotIndex slot, absl::string_view parent_key) {
  if (parent_key.empty()) return true;
  const NamespaceId name_space = objects[slot].name_space;
  const uint64_t hash = KeyHash(name_space, parent_key);
  SlotIndex parent = objects.Find(hash, name_space, parent_key);
  if (parent == kNoSlot) parent = objects.Add(hash, name_space, parent_key);
  if (parent == kNoSlot) return false;
  // A circle would hold all its members back from eviction for ever.
  if (parent == slot || (HasChildren(objects[slot]) && LeadsTo(parent, slot))) return true;
  objects[slot].parent = parent;
  CountChild(parent, 0, 1);
  return true;
}

void CoreState::UnlinkParent(SlotIndex slot) {
  ObjectSlot& object = objects[slot];
  const SlotIndex parent = std::exchange(object.parent, kNoSlot);
  if (parent == kNoSlot) return;
  const bool is_live = object.state == ObjectState::kLive;
  CountChild(parent, is_live ? -1 : 0, is_live ? 0 : -1);
}

void CoreState::CountChild(SlotIndex slot, int live, int open) {
  ObjectSlot& parent = objects[slot];
  const bool had_children = HasChildren(parent);
  parent.live_children += static_cast<uint32_t>(live);
  parent.open_children += static_cast<uint32_t>(open);
  const bool has_children = HasChildren(parent);
  if (had_children == has_children) return;
  if (parent.state == ObjectState::kLive) {
    if (has_children) {
      ++live_parents;
    } else {
      --live_parents;
    }
    UpdateEvictable(slot);
  }
  RemoveIfUnused(slot);
}

void CoreState::RemoveIfUnused(SlotIndex slot) {
  if (objects[slot].state != ObjectState::kAbsent || HasChildren(objects[slot])) return;
  objects.Remove(slot);
}

void CoreState::UpdateEvictable(SlotIndex slot) {
  const ObjectSlot& object = objects[slot];
  if (object.state != ObjectState::kLive) return;
  const bool is_evictable = IsEvictable(object);
  policy->SetEvictable(slot, is_evictable);
  if (is_evictable) ++changes;  // somebody may be waiting for space
}

void CoreState::Charge(NodeRecord& node, ByteUse use, uint64_t length) {
  const uint64_t rounded = ExtentAllocator::Rounded(length);
  node.bytes[static_cast<size_t>(use)] += rounded;
  bytes[static_cast<size_t>(use)] += rounded;
}

void CoreState::Uncharge(NodeRecord& node, ByteUse use, uint64_t length) {
  const uint64_t rounded = ExtentAllocator::Rounded(length);
  node.bytes[static_cast<size_t>(use)] -= rounded;
  bytes[static_cast<size_t>(use)] -= rounded;
}

void CoreState::Attach(SlotIndex slot, StoredParts parts, ByteUse use) {
  for (StoredPart& part : parts) {
    NodeRecord& node = nodes[part.node];
    part.position = static_cast<uint32_t>(node.parts.size());
    node.parts.push_back(slot);
    Charge(node, use, part.length);
    if (node.lost != nullptr) node.lost->Forget(part.segment, part.offset);
    if (node.unproven != nullptr) node.unproven->Prove(part);
  }
  StoredParts all = objects.PartsOf(slot);
  all.insert(all.end(), parts.begin(), parts.end());
  objects.SetParts(slot, std::move(all));
}

void CoreState::Detach(SlotIndex slot, StoredParts parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const StoredPart& part = parts[i];
    NodeRecord& node = nodes[part.node];
    const auto last = static_cast<uint32_t>(node.parts.size() - 1);
    const SlotIndex moved = node.parts.back();
    node.parts[part.position] = moved;
    node.parts.pop_back();
    node.unswept = std::min(node.unswept, node.parts.size());
    if (part.position == last) continue;
    // The moved part is one of those that are still to be detached, or the table knows it.
    const auto same = std::find_if(
        parts.begin() + static_cast<int64_t>(i) + 1, parts.end(), [&](const StoredPart& other) {
          return moved == slot && other.node == part.node && other.position == last;
        });
    if (same != parts.end()) {
      same->position = part.position;
    } else {
      objects.MovePosition(moved, part.node, last, part.position);
    }
  }
}

void CoreState::Release(const StoredPart& part, ByteUse use, const ReleaseRule& rule) {
  NodeRecord& node = nodes[part.node];
  Uncharge(node, use, part.length);
  absl::Time until = rule.all_until;
  for (const Part& pinned : rule.pinned) {
    if (pinned.node == node.id && pinned.extent.segment.value == part.segment &&
        pinned.extent.offset == part.offset) {
      until = std::max(until, rule.pinned_until);
    }
  }
  if (until == absl::InfinitePast()) {
    node.segments[part.segment].allocator.Free(part.offset, part.length);
  } else {
    Condemn(part, until);
  }
}

void CoreState::Condemn(const StoredPart& part, absl::Time until) {
  NodeRecord& node = nodes[part.node];
  Charge(node, ByteUse::kCondemned, part.length);
  condemned.emplace(
      until,
      CondemnedExtent{
          .node = node.id, .segment = part.segment, .offset = part.offset, .length = part.length});
}

void CoreState::MakeLive(SlotIndex slot, absl::Time now) {
  ObjectSlot& object = objects[slot];
  object.state = ObjectState::kLive;
  object.stored_at_cs = Centiseconds(now);
  object.is_adopted = object.generation.term() < own_since;
  StoredParts parts = objects.PartsOf(slot);
  NamespaceRecord& name_space = namespaces[object.name_space];
  for (StoredPart& part : parts) {
    NodeRecord& node = nodes[part.node];
    Uncharge(node, ByteUse::kGranted, part.length);
    Charge(node, ByteUse::kLive, part.length);
    name_space.live_bytes += ExtentAllocator::Rounded(part.length);
    NoteSeen(slot, part);
  }
  if (parts.size() == 1 && parts[0].replica != 0) {
    parts[0].replica = 0;
    objects.SetParts(slot, std::move(parts));
  }
  ++name_space.objects;
  ++live_objects;
  if (object.is_adopted) ++adopted_objects;
  if (HasChildren(object)) ++live_parents;
  const bool has_live_parent =
      object.parent != kNoSlot && objects[object.parent].state == ObjectState::kLive;
  policy_slots.Ensure(slot);
  policy->OnInsert(slot, objects.HashOf(slot), has_live_parent ? object.parent : kNoSlot,
                   IsEvictable(object));
  if (object.parent != kNoSlot) CountChild(object.parent, 1, -1);
  ++changes;
  keeper.Weigh(slot);
  NoteStored(slot);
}

void CoreState::Erase(SlotIndex slot, DeathCause cause, absl::Time now, const ReleaseRule& rule) {
  ObjectSlot& object = objects[slot];
  const uint64_t hash = objects.HashOf(slot);
  const bool is_live = object.state == ObjectState::kLive;
  if (is_live) NoteGone(slot, cause);
  keeper.Forget(slot);
  const bool is_spare = IsSpare(slot);
  if (!is_spare) RecordDeath(slot, hash, cause, now);
  StoredParts parts = objects.PartsOf(slot);
  if (is_live) {
    if (object.is_leased) leases.End(slot);
    NamespaceRecord& name_space = namespaces[object.name_space];
    --name_space.objects;
    --live_objects;
    if (object.is_adopted) --adopted_objects;
    for (const StoredPart& part : parts) {
      name_space.live_bytes -= ExtentAllocator::Rounded(part.length);
    }
    if (HasChildren(object)) --live_parents;
    policy->OnErase(slot, hash,
                    cause == DeathCause::kEvicted ? EraseCause::kEvicted : EraseCause::kRemoved);
  } else {
    grants.Close(slot);
    if (is_spare) {
      spares.Close(object.generation);
    } else {
      ++totals.puts_aborted;
    }
  }
  objects.SetParts(slot, {});
  Detach(slot, parts);
  for (const StoredPart& part : parts) {
    Release(part, is_live ? ByteUse::kLive : ByteUse::kGranted, rule);
  }
  UnlinkParent(slot);
  object.state = ObjectState::kAbsent;
  object.generation = Generation{};
  object.size_bytes = 0;
  object.more_wished = 0;
  object.heat = 0;
  object.is_leased = object.is_parked = object.is_adopted = object.is_scattered = false;
  RemoveIfUnused(slot);
  ++changes;
}

void CoreState::RecordDeath(SlotIndex slot, uint64_t hash, DeathCause cause, absl::Time now) {
  const ObjectSlot& object = objects[slot];
  Obituary obituary{.key_hash = hash,
                    .generation = object.generation,
                    .when_cs = Centiseconds(now),
                    .cause = cause};
  // A live object had taken the place of all older generations. The attempt of a grant had not:
  // an inventory that is still to come may bring what was there before.
  if (object.state == ObjectState::kLive) {
    obituary.dead_up_to = Generation{object.generation.value - 1};
  } else if (cause != DeathCause::kRemoved) {
    // Its writer may have sealed some of it.
    objects.ForEachPart(slot, [&](const StoredPart& part) {
      Owe(part.node, {hash, object.generation});
    });
  }
  if (cause == DeathCause::kRemoved) {
    obituary.dead_up_to = Generation::Of(term, counter);
    obituary.covers_removal = true;
  }
  if (cause == DeathCause::kEvicted) {
    // The bytes are overwritten soon: the node is told when the key comes back or the obituary
    // makes room. Objects of several parts, which are few, are forgotten at once, and so is what
    // stands where records are what there is no room for.
    const bool is_urgent = object.node == 0 || nodes[object.node].is_journal_full();
    obituary.last_seen_at = is_urgent ? 0 : object.node;
    if (is_urgent) {
      objects.ForEachPart(slot, [&](const StoredPart& part) {
        Owe(part.node, {hash, object.generation});
      });
    }
  }
  if (cause == DeathCause::kDamaged) {
    objects.ForEachPart(slot, [&](const StoredPart& part) {
      Owe(part.node, {hash, object.generation});
    });
  }
  if (cause == DeathCause::kNodeLost) {
    if (!object.is_scattered) obituary.last_seen_at = object.node;
    // Parts that stood beside those of the lost node complete nothing any more: it may return, but
    // these are not named again.
    objects.ForEachPart(slot, [&](const StoredPart& part) {
      if (nodes[part.node].is_up()) Owe(part.node, {hash, object.generation});
    });
  }
  // That the last replica was damaged says nothing of those that were lost with their nodes before.
  obituary.may_return =
      cause == DeathCause::kNodeLost || (cause == DeathCause::kDamaged && object.is_scattered);
  // Else they return no more, since the object is gone. A removal asks all that may have it.
  const bool is_over = !obituary.may_return && cause != DeathCause::kRemoved;
  if (object.is_scattered && is_over) OweAbsent({hash, object.generation});
  Remember(obituary);
}

void CoreState::Disown(SlotIndex slot, NodeIndex node) {
  bool stands_there = false;
  objects.ForEachPart(slot, [&](const StoredPart& part) { stands_there |= part.node == node; });
  if (!stands_there) Owe(node, {objects.HashOf(slot), objects[slot].generation});
}

void CoreState::Remember(const Obituary& obituary) {
  const std::optional<Obituary> forgotten = obituaries.Add(obituary);
  if (!forgotten.has_value() || forgotten->is_settled) return;
  const Debt debt{forgotten->key_hash, forgotten->generation};
  if (forgotten->last_seen_at != 0) {
    Owe(forgotten->last_seen_at, debt, Haste::kNextTick);
  } else if (forgotten->may_return) {
    OweAbsent(debt, Haste::kNextTick);
  }
}

bool CoreState::SettleObituary(uint64_t hash, Generation back) {
  std::optional<Obituary> obituary = obituaries.Find(hash);
  if (!obituary.has_value() || obituary->is_settled) return false;
  const bool is_back = obituary->generation == back;
  const Debt debt{hash, obituary->generation};
  if (obituary->cause == DeathCause::kEvicted) {
    Owe(obituary->last_seen_at, debt);
  } else if (!obituary->may_return) {
    return false;
  } else if (is_back) {
    // What else there is of it comes back, too, or is declined then.
  } else if (obituary->last_seen_at != 0) {
    Owe(obituary->last_seen_at, debt);
  } else {
    OweAbsent(debt);
  }
  obituary->is_settled = true;
  if (!is_back) obituary->dead_up_to = std::max(obituary->dead_up_to, obituary->generation);
  Remember(*obituary);
  return is_back;
}

uint64_t CoreState::FootprintOf(SlotIndex slot) const {
  uint64_t footprint = 0;
  objects.ForEachPart(
      slot, [&](const StoredPart& part) { footprint += ExtentAllocator::Rounded(part.length); });
  return footprint;
}

absl::Time CoreState::HeldUntil(SlotIndex slot) const {
  return objects[slot].is_adopted ? hold_until : absl::InfinitePast();
}

absl::Time CoreState::HeldUntil(Generation generation) const {
  const bool is_own = generation.term() >= own_since;
  return is_own || last_now >= hold_until ? absl::InfinitePast() : hold_until;
}

absl::Duration CoreState::TakeoverHold(absl::Time now) const {
  if (adopted_objects == 0 || now >= hold_until) return absl::ZeroDuration();
  return hold_until - now;
}

absl::Time CoreState::ProtectedUntil(SlotIndex slot) const {
  const absl::Time held = HeldUntil(slot);
  if (!GuardIsOn(Guard::kLease) || !objects[slot].is_leased) return held;
  return std::max(held, leases.Find(slot)->until);
}

Replicas CoreState::ReplicasOf(SlotIndex slot, bool only_up) const {
  Replicas replicas;
  AppendReplicas(slot, only_up, replicas);
  return replicas;
}

void CoreState::AppendReplicas(SlotIndex slot, bool only_up, Replicas& replicas) const {
  int current = -1;
  bool is_offered = false;
  const auto drop_if_away = [&] {
    if (current >= 0 && !is_offered) replicas.pop_back();
  };
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    if (part.replica != current) {
      drop_if_away();
      current = part.replica;
      is_offered = true;
      replicas.emplace_back();
    }
    const NodeRecord& node = nodes[part.node];
    if (only_up && !node.is_up()) is_offered = false;
    replicas.back().parts.push_back(
        Part{.node = node.id, .extent = Extent{SegmentId{part.segment}, part.offset, part.length}});
  });
  drop_if_away();
}

uint32_t CoreState::ReplicaCount(SlotIndex slot) const {
  uint32_t count = 0;
  int current = -1;
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    if (part.replica != current) ++count;
    current = part.replica;
  });
  return count;
}

}  // namespace moonpool::master
