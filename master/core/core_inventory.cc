// What nodes say is sealed: inventories after they came, seal reports while they are in session.
// A sealed object needs no commit by its writer (R3), and no memory of the master (R5).
#include <algorithm>
#include <utility>

#include "common/guard.h"
#include "common/names.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

bool IsPlausible(const SealedPart& part, const NodeRecord& node) {
  const uint32_t segment = part.extent.segment.value;
  const bool is_well_formed =
      part.generation.value != 0 && !part.key.empty() && part.key.size() <= kMaxKeyBytes &&
      part.parent.size() <= kMaxKeyBytes && part.part_count >= 1 &&
      part.part_count <= kMaxPartsPerReplica && part.part_index < part.part_count &&
      part.replica_index < kMaxReplicas && part.replicas <= kMaxReplicas &&
      segment < node.segments.size() && part.extent.length >= kPartHeaderBytes &&
      SplitPartNamespace(part.name_space).has_value();
  if (!is_well_formed) return false;
  const uint64_t capacity = node.segments[segment].allocator.capacity_bytes();
  const uint64_t payload = part.extent.length - kPartHeaderBytes;
  return part.extent.length <= capacity && part.extent.offset <= capacity &&
         (part.part_count == 1 ? payload == part.object_bytes : payload <= part.object_bytes);
}

StoredPart ToStored(const ReportedPart& part) {
  return StoredPart{.offset = part.sealed->extent.offset,
                    .length = part.sealed->extent.length,
                    .node = part.node,
                    .segment = static_cast<uint16_t>(part.sealed->extent.segment.value),
                    .replica = static_cast<uint8_t>(part.sealed->replica_index),
                    .cut = static_cast<uint8_t>(part.sealed->replica_index)};
}

// Replicas beside the first that the object's writer asked for.
uint32_t MoreWished(const SealedPart& part) {
  return part.replicas == 0 ? part.replica_index : part.replicas - 1;
}

bool SamePlace(const StoredPart& a, const StoredPart& b) {
  return a.node == b.node && a.segment == b.segment && a.offset == b.offset && a.length == b.length;
}

}  // namespace

void Core::InventorySlice(NodeId node, SessionId session, absl::Span<const SealedPart> parts,
                          absl::Time now) {
  CoreState& s = *state_;
  NodeRecord* record = s.SessionOf(node, session, now);
  if (record == nullptr) return;
  // A master before may have leased what it has to forget.
  for (const SealedPart& part : parts) {
    s.Report(
        ReportedPart{.node = record->index, .sealed = &part, .is_inventory = true, .now = now});
  }
}

void Core::SealReport(NodeId node, SessionId session, absl::Span<const SealedPart> parts,
                      absl::Time now) {
  CoreState& s = *state_;
  const NodeRecord* record = s.SessionOf(node, session, now);
  if (record == nullptr) return;
  for (const SealedPart& part : parts) {
    s.Report(ReportedPart{.node = record->index, .sealed = &part, .now = now});
  }
}

void Core::InventoryComplete(NodeId node, SessionId session, absl::Time now) {
  CoreState& s = *state_;
  NodeRecord* record = s.SessionOf(node, session, now);
  if (record == nullptr || record->inventory_complete) return;
  record->inventory_complete = true;
  record->complete_since = now;
  if (!record->is_met && record->parts.empty()) record->empty_since = now;
  record->is_met = true;
  if (record->seen != nullptr) record->unswept = record->parts.size();
  s.nodes.Refresh();
  s.Unpark(*record);
  s.keeper.NodesJoined();
  s.debts.FinishListing(record->id);
  // Where not all could be listed that it is to forget, another inventory follows.
  if (!s.debts.HasUnlisted(record->id)) {
    s.MarkMet(record->description);
    s.ConfirmAll(std::exchange(record->inventory_waiters, {}));
  }
  ++s.changes;
}

void CoreState::Report(const ReportedPart& part) {
  NodeRecord& node = nodes[part.node];
  if (!IsPlausible(*part.sealed, node)) return;
  if (node.unproven != nullptr) node.unproven->Prove(ToStored(part));
  TakeUp(part);
  RestIfHeld(ToStored(part), part.sealed->generation);
}

void CoreState::TakeUp(const ReportedPart& reported) {
  const SealedPart& sealed = *reported.sealed;
  NodeRecord& node = nodes[reported.node];
  const bool is_own = sealed.generation.term() >= own_since;
  const std::optional<NamespaceTable::Home> home =
      is_own ? namespaces.Find(sealed.name_space) : namespaces.FindOrAdd(sealed.name_space);
  if (!home.has_value()) {
    // This master granted nothing there: it is forged, and must not claim the name with a layout of
    // its choice. Else there is no room for the namespace, and there will be none: nobody can
    // remove a key of it.
    constexpr NamespaceId kAny = 0;  // what is owed is freed by its generation
    if (is_own || sealed.generation <= node.given_up_to) {
      Owe(reported.node, {KeyHash(kAny, sealed.key), sealed.generation});
    }
    return;
  }
  ReportedPart part = reported;
  part.name_space = home->id;
  part.key_hash = KeyHash(home->id, sealed.key);
  // Registering has raised the term above all that the node was told, and in this term no more was
  // granted: it is forged, and taken for an object it would meet the grant that gets its number.
  if (sealed.generation > Generation::Of(term, counter)) {
    return Owe(part.node, {part.key_hash, sealed.generation});
  }
  if (home->is_of_its_layout) BindReported(part);  // else it is owed, and so its commit refused
  const SlotIndex slot = objects.Find(part.key_hash, home->id, sealed.key);
  const bool is_its_generation =
      slot != kNoSlot && objects.FindGeneration(slot, sealed.generation) != nullptr;
  // Bytes of another layout would be wrong ones for those who open the namespace. A writer who was
  // granted this generation here answers for it himself.
  if (!home->is_of_its_layout) {
    ++totals.other_layouts;
    if (!is_its_generation) Owe(part.node, {part.key_hash, sealed.generation});
    return;
  }
  if (is_its_generation) {
    // Else it is no part of this object, whoever wrote it.
    if (objects[slot].size_bytes != sealed.object_bytes) return;
    bool is_known = false;
    objects.ForEachPart(slot, [&](const StoredPart& stored) {
      is_known = is_known || SamePlace(stored, ToStored(part));
    });
    if (is_known) NoteSeen(slot, ToStored(part));
    if (objects[slot].state == ObjectState::kGranted) {
      // Of a replica that the grant has lost, since its node was away.
      is_known ? ReportOfGrant(slot, part) : Disown(slot, part.node);
      return;
    }
    WishAsReported(slot, part);
    if (is_known || keeper.TakeReport(slot, ToStored(part))) return;
  }
  if (IsUnwanted(slot, part)) return;
  if (sealed.part_count > 1) {
    CollectPart(part);
    return;
  }
  NodeSegment& segment = node.segments[sealed.extent.segment.value];
  if (!segment.allocator.Reserve(sealed.extent.offset, sealed.extent.length)) {
    Decline(part, part.node);
    return;
  }
  const PartialObject object{.name_space = home->id,
                             .key = std::string(sealed.key),
                             .parent = std::string(sealed.parent),
                             .size_bytes = sealed.object_bytes};
  if (!Adopt(part, object, {ToStored(part)})) {
    segment.allocator.Free(sealed.extent.offset, sealed.extent.length);
    Decline(part, part.node);
  }
}

void CoreState::ReportOfGrant(SlotIndex slot, const ReportedPart& part) {
  uint16_t parts[kMaxReplicas] = {};
  objects.ForEachPart(slot, [&](const StoredPart& stored) {
    const SealMark mark{.replica = stored.replica, .part = parts[stored.replica]++};
    if (!SamePlace(stored, ToStored(part))) return;
    grants.MarkSealed(slot, mark, nodes[part.node].session);
  });
  CommitSealed(slot, ReplicaCount(slot), part.now);
}

bool CoreState::IsUnwanted(SlotIndex slot, const ReportedPart& part) {
  const Generation generation = part.sealed->generation;
  const RemoveTicket removal =
      tombstones.FirstCovering(part.name_space, part.sealed->key, generation);
  if (removal != RemoveTicket{} && GuardIsOn(Guard::kTombstone)) {
    Tombstone& stone = *tombstones.Find(removal);
    const bool is_still_leased =
        part.now < stone.holders_told_at && generation == stone.held_generation;
    const NodeId holder = nodes[part.node].id;
    if (!is_still_leased) {
      FreeAt(holder, {part.key_hash, generation}, removal);
    } else if (std::find(stone.holders.begin(), stone.holders.end(), holder) ==
               stone.holders.end()) {
      stone.holders.push_back(holder);  // it came after the removal, and is told with the others
    }
    return true;
  }
  const RemoveTicket durable = tombstones.DurableOf(part.name_space, part.sealed->key);
  if (durable != RemoveTicket{} && generation <= tombstones.Find(durable)->generation) {
    Owe(part.node, {part.key_hash, generation});
    for (uint32_t owed = debts.Attach(part.key_hash, durable); owed > 0; --owed) {
      tombstones.Await(durable);
    }
    return true;
  }
  // Dead at this node, and on its way out, though there may be a replica elsewhere that lives.
  const bool is_owed = debts.IsOwed(nodes[part.node].id, {part.key_hash, generation});
  if (GuardIsOn(Guard::kDebt) && is_owed) return true;
  const bool is_live = slot != kNoSlot && objects[slot].state == ObjectState::kLive;
  const auto unwanted = [&] {
    Owe(part.node, {part.key_hash, generation});
    return true;
  };
  const bool is_given_up = GuardIsOn(Guard::kGivenUp) && generation <= nodes[part.node].given_up_to;
  if (is_live && objects[slot].generation == generation) {
    // Another replica. Perhaps of a copy that was given up: with its claim it will be forgotten. Or
    // of a node that is not believed: the next master would not take it.
    const bool is_copy_owed = debts.IsNewerOwed(nodes[part.node].id, {part.key_hash, generation});
    return (is_copy_owed || is_given_up) && unwanted();
  }
  // Granted by this core and not open any more: its writer was told that it is aborted.
  const bool is_own = generation.term() >= own_since;
  if (GuardIsOn(Guard::kUnproved) && !part.is_inventory && is_own) return unwanted();
  const bool is_older = is_live && objects[slot].generation > generation;
  if (GuardIsOn(Guard::kHighestWins) && is_older) return unwanted();
  // Also where it would complete what others have brought.
  if (is_given_up) return unwanted();
  const std::optional<Obituary> obituary = obituaries.Find(part.key_hash);
  const bool is_last = obituary.has_value() && generation == obituary->generation;
  const bool is_dead = obituary.has_value() &&
                       (generation <= obituary->dead_up_to || (is_last && !obituary->may_return));
  if (GuardIsOn(Guard::kObituary) && is_dead) return unwanted();
  // Others wait for it.
  if (partials.Find({part.key_hash, generation}) != nullptr) return false;
  // What was lost with its node may return with it: nothing was granted there meanwhile.
  if (is_last) return false;
  // For all else the memory of deaths proves nothing, since it is bounded. What a node has and this
  // master granted, or has met there, was given up; the rest is of older masters, and may have been
  // removed when the memory does not reach back.
  const bool was_given_up = GuardIsOn(Guard::kUnproved) && (is_own || nodes[part.node].is_met);
  const bool may_be_removed = generation <= obituaries.forgotten_removals();
  return (was_given_up || may_be_removed) && unwanted();
}

void CoreState::CollectPart(const ReportedPart& part) {
  const SealedPart& sealed = *part.sealed;
  const PartialTable::Id id{part.key_hash, sealed.generation};
  const PartialObject* object = partials.Find(id);
  if (object == nullptr) {
    if (partials.size() >= options.max_partial_objects) return Decline(part, part.node);
    object = &partials.Add(id, PartialObject{.name_space = part.name_space,
                                             .key = std::string(sealed.key),
                                             .parent = std::string(sealed.parent),
                                             .size_bytes = sealed.object_bytes,
                                             .expires = part.now + options.partial_timeout});
  }
  NodeRecord& node = nodes[part.node];
  const StoredPart stored = ToStored(part);
  const bool is_other = object->name_space != part.name_space || object->key != sealed.key ||
                        object->size_bytes != sealed.object_bytes;
  // Parts whose incarnation is gone are no parts any more.
  partials.EraseParts(id, [&](const PartialPart& known) {
    const NodeRecord* holder = nodes.Find(known.node);
    if (holder != nullptr && holder->state != NodeState::kRetired) return false;
    ReleasePartial(known);
    return true;
  });
  const bool is_full = object->parts.size() >= kMaxReplicas * kMaxPartsPerReplica;
  const PartialPart named{.node = node.id,
                          .part = stored,
                          .part_index = sealed.part_index,
                          .part_count = sealed.part_count,
                          .session = node.session};
  if (is_other || !partials.Renew(id, named)) {
    if (is_other || is_full ||
        !node.segments[stored.segment].allocator.Reserve(stored.offset, stored.length)) {
      const bool is_holder = std::any_of(object->parts.begin(), object->parts.end(),
                                         [&](const PartialPart& p) { return p.node == node.id; });
      if (!is_holder) Decline(part, part.node);
      return;
    }
    Charge(node, ByteUse::kPartial, stored.length);
    partials.AddPart(id, named);
  }
  // What its node has not named since it came back may be lost.
  const auto counts = [&](const PartialPart& known) {
    const NodeRecord& holder = *nodes.Find(known.node);
    return !holder.is_up() || holder.session == known.session;
  };
  StoredParts complete = object->CompleteReplica(stored.replica, sealed.part_count, counts);
  if (complete.empty()) return;
  PartialObject whole = partials.Take(id);
  std::erase_if(whole.parts, [&](const PartialPart& p) {
    return std::any_of(complete.begin(), complete.end(),
                       [&](const StoredPart& taken) { return SamePlace(taken, p.part); });
  });
  for (const StoredPart& each : complete) {
    Uncharge(nodes[each.node], ByteUse::kPartial, each.length);
  }
  if (!Adopt(part, whole, complete)) {
    for (const StoredPart& each : complete) Decline(part, each.node);
    placement.GiveBack({complete.begin(), complete.end()});
    for (const StoredPart& each : complete) RestIfHeld(each, sealed.generation);
    for (const PartialPart& rest : std::exchange(whole.parts, {})) {
      Decline(part, nodes.Find(rest.node)->index);
      ReleasePartial(rest, {.all_until = HeldUntil(sealed.generation)});
    }
  }
  if (!whole.parts.empty()) partials.Add(id, std::move(whole));
}

bool CoreState::Adopt(const ReportedPart& part, const PartialObject& object, StoredParts parts) {
  const Generation generation = part.sealed->generation;
  SlotIndex slot = objects.Find(part.key_hash, part.name_space, object.key);
  if (slot != kNoSlot && objects.FindGeneration(slot, generation) != nullptr) {
    WishAsFound(slot, part, parts);
    return AddReplica(slot, std::move(parts));
  }
  if (slot != kNoSlot && objects[slot].state != ObjectState::kAbsent) {
    // An older object, or the grant of a writer who came before this inventory.
    const Generation other = objects[slot].generation;
    const bool is_live = objects[slot].state == ObjectState::kLive;
    const absl::Time held = is_live ? ProtectedUntil(slot) : absl::InfinitePast();
    // Under a lease its bytes stay as they are, though nobody finds them any more.
    if (is_live) {
      objects.ForEachPart(slot, [&](const StoredPart& old) {
        Owe(old.node, {part.key_hash, other}, Haste::kNow,
            held > part.now ? held : absl::InfinitePast());
      });
    }
    Erase(slot, DeathCause::kSuperseded, part.now, ReleaseRule{.all_until = held});
    slot = objects.Find(part.key_hash, part.name_space, object.key);
  }
  if (slot == kNoSlot) slot = objects.Add(part.key_hash, part.name_space, object.key);
  if (slot == kNoSlot) return false;
  objects[slot].state = ObjectState::kGranted;
  objects[slot].generation = generation;
  objects[slot].size_bytes = object.size_bytes;
  objects[slot].is_scattered = SettleObituary(part.key_hash, generation);
  LinkParent(slot, object.parent);  // without a parent when the table is full
  objects[slot].more_wished = MoreWished(*part.sealed) & 7;
  if (parts.size() == 1) parts[0].replica = 0;
  Attach(slot, std::move(parts), ByteUse::kGranted);
  MakeLive(slot, part.now);
  ++totals.adopted;
  return true;
}

void CoreState::WishAsReported(SlotIndex slot, const ReportedPart& part) {
  ObjectSlot& object = objects[slot];
  const uint32_t more = MoreWished(*part.sealed);
  if (!object.is_adopted || more <= object.more_wished) return;
  object.more_wished = more & 7;
  keeper.Weigh(slot);
}

void CoreState::WishAsFound(SlotIndex slot, const ReportedPart& part, const StoredParts& parts) {
  ObjectSlot& object = objects[slot];
  const bool is_said = part.sealed->replicas > 0;
  if (is_said || !object.is_adopted || parts.size() == 1 || nodes[part.node].is_met) return;
  const uint32_t have = ReplicaCount(slot);
  if (have < kMaxReplicas) object.more_wished = std::max<uint32_t>(object.more_wished, have) & 7;
}

void CoreState::NoteSeen(SlotIndex slot, const StoredPart& part) {
  NodeRecord& node = nodes[part.node];
  if (node.seen == nullptr) return;
  node.seen->Insert(slot);
  if (objects.PartsOf(slot).size() > 1) NotePlace(part);
}

void CoreState::NotePlace(const StoredPart& part) {
  NodeRecord& node = nodes[part.node];
  if (node.seen != nullptr) node.seen->InsertPlace(part.segment, part.offset);
}

bool CoreState::HasSeen(SlotIndex slot, const StoredPart& part) const {
  const NodeRecord& node = nodes[part.node];
  if (node.seen == nullptr || !node.seen->Contains(slot)) return false;
  return !objects[slot].has_list || node.seen->ContainsPlace(part.segment, part.offset);
}

bool CoreState::AddReplica(SlotIndex slot, StoredParts parts) {
  bool is_used[kMaxReplicas] = {};
  objects.ForEachPart(slot, [&](const StoredPart& part) { is_used[part.replica] = true; });
  const auto unused = std::find(std::begin(is_used), std::end(is_used), false);
  if (unused == std::end(is_used)) return false;
  const bool is_its_own = !is_used[parts[0].replica];
  const auto number =
      is_its_own ? parts[0].replica : static_cast<uint8_t>(unused - std::begin(is_used));
  // From now on it has several, and the places count.
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    if (HasSeen(slot, part)) NotePlace(part);
  });
  for (StoredPart& part : parts) {
    part.replica = number;
    namespaces[objects[slot].name_space].live_bytes += ExtentAllocator::Rounded(part.length);
    NoteSeen(slot, part);
    NotePlace(part);
  }
  Attach(slot, std::move(parts), ByteUse::kLive);
  // Parts meet in the order in which nodes name them. One replica at most shall go with a node.
  Disentangle(slot);
  objects[slot].is_parked = false;
  UpdateEvictable(slot);
  keeper.Weigh(slot);
  return true;
}

void CoreState::Decline(const ReportedPart& part, NodeIndex node) {
  const Generation generation = part.sealed->generation;
  const SlotIndex slot = objects.Find(part.key_hash, part.name_space, part.sealed->key);
  if (slot != kNoSlot && objects.FindGeneration(slot, generation) != nullptr) {
    Disown(slot, node);
  } else {
    Owe(node, {part.key_hash, generation});
  }
}

void CoreState::RestIfHeld(const StoredPart& part, Generation generation) {
  const absl::Time held = HeldUntil(generation);
  if (held == absl::InfinitePast()) return;
  ExtentAllocator& allocator = nodes[part.node].segments[part.segment].allocator;
  if (allocator.Reserve(part.offset, part.length)) Condemn(part, held);
}

void CoreState::DropPartial(const PartialTable::Id& id) {
  const ReleaseRule rule{.all_until = HeldUntil(id.generation)};
  for (const PartialPart& part : partials.Take(id).parts) ReleasePartial(part, rule);
  ++changes;
}

void CoreState::GiveUpPartial(const PartialTable::Id& id) {
  const PartialObject object = partials.Take(id);
  const SlotIndex slot = objects.Find(id.key_hash, object.name_space, object.key);
  const bool is_live = slot != kNoSlot && objects.FindGeneration(slot, id.generation) != nullptr;
  for (const PartialPart& part : object.parts) {
    ReleasePartial(part, {.all_until = HeldUntil(id.generation)});
    const NodeRecord* node = nodes.Find(part.node);
    if (node == nullptr) continue;
    if (is_live) {
      Disown(slot, node->index);
    } else {
      Owe(node->index, {id.key_hash, id.generation});
    }
  }
  ++changes;
}

void CoreState::DropPartialAt(NodeId node, const Debt& debt) {
  const PartialTable::Id id{debt.key_hash, debt.generation};
  const PartialObject* const object = partials.Find(id);
  if (object == nullptr) return;
  const ReleaseRule rule{.all_until = std::max(debts.HeldUntil(debt), HeldUntil(debt.generation))};
  const size_t dropped = partials.EraseParts(id, [&](const PartialPart& part) {
    if (part.node != node) return false;
    ReleasePartial(part, rule);
    return true;
  });
  if (object->parts.empty()) partials.Take(id);
  if (dropped > 0) ++changes;
}

void CoreState::ReleasePartial(const PartialPart& part, const ReleaseRule& rule) {
  if (nodes.Find(part.node) != nullptr) Release(part.part, ByteUse::kPartial, rule);
}

}  // namespace moonpool::master
