// Spare grants: given before there is a key, bound to one when that is known.
//
// Who holds one writes at once and says with the commit what it was. So of two writers of a key
// both may have sealed what they have before this master has heard of either, and the order of
// their generations says nothing about who came first. What keeps the rules whole:
//
//   - A spare is bound only to a key that could be granted now, and only when it is newer than all
//     that is known of the key. So the newest generation of a key is the one that counts, still.
//   - One that is refused is owed at once by all its nodes (see debt_table.h).
//   - A node that reports a part binds as well as the commit does; from then on it is a grant like
//     any other. What ends before either is bound by none: late seals of what this master granted
//     are refused anyhow.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

absl::Status TooOld() {
  return MakeError(absl::StatusCode::kAborted, ErrorReason::kGrantAborted,
                   "the spare grant is older than what is known of the key",
                   {.hint = "start the put"});
}

// Of no client's: it only has to be another one for each spare.
std::string SpareKeyOf(Generation generation) { return absl::StrCat(absl::Hex(generation.value)); }

}  // namespace

std::vector<Grant> Core::GrantSpares(const Caller& caller, const SpareWish& wish, absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  std::vector<Grant> spares;
  const StartPutsCommand command{.caller = caller};
  PutContext put{.command = &command, .now = now};
  put.replicas = put.min_replicas = std::max<uint32_t>(wish.replicas, 1);
  if (put.replicas > kMaxReplicas) return spares;
  put.writer_host = s.nodes.FindLabel(caller.host_id);
  const uint32_t held = s.spares.CountOf(caller.client_id);
  const uint32_t count =
      std::min(wish.count, kMaxSparesPerClient - std::min(held, kMaxSparesPerClient));
  while (spares.size() < count) {
    const SlotIndex slot = s.OpenSpare(put, wish.size_bytes);
    if (slot == kNoSlot) break;
    s.TellGrant(slot, now, spares.emplace_back());
  }
  s.totals.spares_given += spares.size();
  return spares;
}

bool CoreState::HasRoomForSpare(uint64_t bytes_more) const {
  const uint64_t capacity = nodes.capacity_bytes();
  const uint64_t used = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  const auto free_bytes = static_cast<double>(capacity - std::min(capacity, used));
  const auto spare_bytes = static_cast<double>(spares.bytes() + bytes_more);
  return free_bytes >= options.spare_free_min * static_cast<double>(capacity) &&
         spare_bytes <= options.spare_fraction * free_bytes;
}

SlotIndex CoreState::OpenSpare(const PutContext& put, uint64_t size_bytes) {
  // Compared without sums, which could overflow.
  if (size_bytes > options.stripe_bytes || grants.size() >= options.max_open_grants / 2) {
    return kNoSlot;
  }
  const uint64_t footprint = put.replicas * ExtentAllocator::Rounded(size_bytes + kPartHeaderBytes);
  if (!HasRoomForSpare(footprint)) return kNoSlot;
  PlacedReplicas placed;
  bool is_placed = true;
  while (is_placed && placed.size() < put.replicas) {
    auto replica = placement.Place(PlacementRequest{.size_bytes = size_bytes,
                                                    .writer_host = put.writer_host,
                                                    .replicas = put.replicas,
                                                    .others = placed,
                                                    .now = put.now});
    is_placed = replica.has_value() && replica->size() == 1;
    if (replica.has_value()) placed.push_back(*std::move(replica));
  }
  const Generation generation = is_placed ? NextGeneration() : Generation{};
  const std::string name = SpareKeyOf(generation);
  const SlotIndex slot =
      is_placed ? objects.Add(KeyHash(kSpareNamespace, name), kSpareNamespace, name) : kNoSlot;
  if (slot == kNoSlot) {
    for (const PlacedReplica& replica : placed) placement.GiveBack(replica);
    return kNoSlot;
  }
  objects[slot].state = ObjectState::kGranted;
  objects[slot].size_bytes = size_bytes;
  objects[slot].more_wished = (put.replicas - 1) & 7;
  objects[slot].generation = generation;
  AttachGranted(slot, placed);
  const uint64_t client_id = put.command->caller.client_id;
  spares.Open(generation, {.slot = slot, .client_id = client_id, .bytes = footprint});
  grants.Open(slot, OpenGrant{.generation = generation,
                              .client_id = client_id,
                              .deadline = put.now + std::min(options.max_spare, options.max_grant),
                              .min_replicas = put.min_replicas});
  return slot;
}

CoreState::Bound CoreState::BindSpare(SlotIndex spare, const SpareKey& key, absl::Time now) {
  Bound bound = TryToBind(spare, key, now);
  if (bound.status.ok()) {
    ++totals.spares_used;
  } else {
    ++totals.spares_refused;
    EndSpare(spare, KeyHash(key.name_space, key.key), now);
  }
  return bound;
}

CoreState::Bound CoreState::TryToBind(SlotIndex spare, const SpareKey& key, absl::Time now) {
  const Generation generation = objects[spare].generation;
  const PutKey put{.key = key.key, .size_bytes = objects[spare].size_bytes, .parent = key.parent};
  if (absl::Status bad = CheckPut(put, grants.At(spare).min_replicas); !bad.ok()) {
    return {.status = std::move(bad)};
  }
  const uint64_t hash = KeyHash(key.name_space, key.key);
  SlotIndex slot = FindSettled(KeyHash(key.name_space, key.key), key.name_space, key.key, now);
  if (slot != kNoSlot && objects[slot].state != ObjectState::kAbsent) {
    const bool is_live = objects[slot].state == ObjectState::kLive;
    return {.status = TakenBy(slot, now),
            .existing_generation = is_live ? objects[slot].generation : Generation{}};
  }
  if (GuardIsOn(Guard::kSpareIsNewest) && generation <= NewestKnown(key, hash)) {
    return {.status = TooOld()};
  }
  const auto full = [&] {
    return Bound{.status = LimitReached("objects", "--limit-objects", options.max_objects)};
  };
  if (slot == kNoSlot) slot = objects.Add(hash, key.name_space, key.key);
  if (slot == kNoSlot) return full();
  objects[slot].state = ObjectState::kGranted;
  if (!LinkParent(slot, key.parent)) {
    objects[slot].state = ObjectState::kAbsent;
    RemoveIfUnused(slot);
    return full();
  }
  MoveGrant(spare, slot);
  ++totals.puts_started;
  SettleObituary(hash);
  return {.slot = slot};
}

Generation CoreState::NewestKnown(const SpareKey& key, uint64_t hash) {
  Generation newest = std::max(obituaries.newest_forgotten(), debts.NewestOwed(hash));
  if (const std::optional<Obituary> obituary = obituaries.Find(hash)) {
    newest = std::max({newest, obituary->generation, obituary->dead_up_to});
  }
  for (const RemoveTicket removal : {tombstones.Covering(key.name_space, key.key, Generation{1}),
                                     tombstones.DurableOf(key.name_space, key.key)}) {
    if (removal == RemoveTicket{}) continue;
    newest = std::max(newest, tombstones.Find(removal)->generation);
  }
  return newest;
}

void CoreState::MoveGrant(SlotIndex from, SlotIndex to) {
  StoredParts parts = objects.PartsOf(from);
  for (const StoredPart& part : parts) nodes[part.node].parts[part.position] = to;
  objects.SetParts(from, {});
  objects[to].size_bytes = objects[from].size_bytes;
  objects[to].more_wished = objects[from].more_wished & 7;
  objects[to].generation = objects[from].generation;
  objects.SetParts(to, std::move(parts));
  spares.Close(objects[from].generation);
  grants.Move(from, to);
  objects[from].state = ObjectState::kAbsent;
  RemoveIfUnused(from);
}

void CoreState::BindReported(const ReportedPart& part) {
  const SealedPart& sealed = *part.sealed;
  const SpareTable::Spare* const known = spares.Find(sealed.generation);
  if (known == nullptr) return;
  const SlotIndex spare = known->slot;
  // Else it is no part of it, whoever wrote it.
  bool is_known = false;
  objects.ForEachPart(spare, [&](const StoredPart& stored) {
    is_known |= stored.node == part.node && stored.segment == sealed.extent.segment.value &&
                stored.offset == sealed.extent.offset && stored.length == sealed.extent.length;
  });
  if (!is_known || objects[spare].size_bytes != sealed.object_bytes) return;
  BindSpare(spare, {part.name_space, sealed.key, sealed.parent}, part.now);
}

void CoreState::EndSpare(SlotIndex spare, std::optional<uint64_t> key_hash, absl::Time now,
                         const ReleaseRule& rule) {
  const Generation generation = objects[spare].generation;
  StoredParts parts = objects.PartsOf(spare);
  Erase(spare, DeathCause::kAborted, now, rule);
  if (!key_hash.has_value()) return;
  for (const StoredPart& part : parts) Owe(part.node, {*key_hash, generation});
}

}  // namespace moonpool::master
