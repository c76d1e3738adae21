// CommitPuts and AbortPuts: how grants end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

absl::Status GrantAborted() {
  return MakeError(absl::StatusCode::kAborted, ErrorReason::kGrantAborted,
                   "the grant is no more: its deadline passed, it was aborted or removed",
                   {.hint = "start the put again"});
}

}  // namespace

absl::StatusOr<std::vector<CommitOutcome>> Core::CommitPuts(const Caller& caller,
                                                            absl::Span<const CommitPut> puts,
                                                            absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, puts.size()));
  std::vector<CommitOutcome> outcomes;
  outcomes.reserve(puts.size());
  for (size_t i = 0; i < puts.size(); ++i) {
    s.FetchGhosts(puts, i);
    outcomes.push_back(s.CommitOne(caller, name_space, puts[i], now));
  }
  return outcomes;
}

void CoreState::FetchGhosts(absl::Span<const CommitPut> puts, size_t next) const {
  if (next % ObjectTable::kPrefetchKeys != 0) return;
  for (const CommitPut& put : puts.subspan(next, ObjectTable::kPrefetchKeys)) {
    if (objects.FindGeneration(put.handle, put.generation) == nullptr) continue;
    policy->Prefetch(objects.HashOf(put.handle));
  }
}

CommitOutcome CoreState::CommitOne(const Caller& caller, NamespaceId name_space,
                                   const CommitPut& put, absl::Time now) {
  if (!put.key.empty()) {
    return CommitSpare(caller, {name_space, put.key, put.parent}, put, now);
  }
  const ObjectSlot* object = objects.FindGeneration(put.handle, put.generation);
  if (object == nullptr || object->name_space != name_space) return {.status = GrantAborted()};
  if (object->state == ObjectState::kGranted) {
    return {.status = Commit(put.handle, put.failed_replicas, now), .handle = put.handle};
  }
  return {.handle = put.handle};
}

CommitOutcome CoreState::CommitSpare(const Caller& caller, const SpareKey& key,
                                     const CommitPut& put, absl::Time now) {
  SlotIndex slot = objects.Find(key.name_space, key.key);
  if (const SpareTable::Spare* spare = spares.Find(put.generation)) {
    if (spare->client_id != caller.client_id) return {.status = GrantAborted()};
    const Bound bound = BindSpare(spare->slot, key, now);
    if (!bound.status.ok()) return Refused(key, put.generation, bound);
    slot = bound.slot;
  }
  // Or a node has named the key before.
  if (slot == kNoSlot || objects.FindGeneration(slot, put.generation) == nullptr) {
    return Late(key, put.generation, now);
  }
  if (objects[slot].state == ObjectState::kGranted) {
    return {.status = Commit(slot, put.failed_replicas, now), .handle = slot};
  }
  return {.handle = slot};
}

CommitOutcome CoreState::Late(const SpareKey& key, Generation generation, absl::Time now) {
  const SlotIndex slot =
      FindSettled(KeyHash(key.name_space, key.key), key.name_space, key.key, now);
  // What was sealed under a grant of an older master may be on its way here.
  const bool is_own = generation.term() >= own_since;
  const bool is_taken = slot != kNoSlot && objects[slot].state != ObjectState::kAbsent;
  if (!is_own || !is_taken) return {.status = GrantAborted()};
  const bool is_live = objects[slot].state == ObjectState::kLive;
  return Refused(key, generation,
                 {.status = TakenBy(slot, now),
                  .existing_generation = is_live ? objects[slot].generation : Generation{}});
}

CommitOutcome CoreState::Refused(const SpareKey& key, Generation generation, const Bound& bound) {
  // Who starts the put again gets a newer generation, which counts.
  const bool is_last_word = ReasonOf(bound.status) != ErrorReason::kGrantAborted;
  return {
      .status = bound.status,
      .existing_generation = bound.existing_generation,
      .is_pending = is_last_word && debts.Await({KeyHash(key.name_space, key.key), generation})};
}

absl::StatusOr<std::vector<absl::Status>> Core::AbortPuts(const Caller& caller,
                                                          absl::Span<const AbortPut> puts,
                                                          absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, puts.size()));
  std::vector<absl::Status> results;
  results.reserve(puts.size());
  for (const AbortPut& put : puts) results.push_back(s.AbortOne(caller, name_space, put, now));
  return results;
}

absl::Status CoreState::AbortOne(const Caller& caller, NamespaceId name_space, const AbortPut& put,
                                 absl::Time now) {
  const ReleaseRule rule{.pinned = put.pinned, .pinned_until = now + options.condemn_duration};
  SlotIndex slot = put.handle;
  if (const SpareTable::Spare* spare = spares.Find(put.generation)) {
    if (spare->client_id != caller.client_id) return absl::OkStatus();
    std::optional<uint64_t> key_hash;
    if (!put.key.empty()) key_hash = KeyHash(name_space, put.key);
    EndSpare(spare->slot, key_hash, now, rule);
    return absl::OkStatus();
  }
  if (!put.key.empty()) slot = objects.Find(name_space, put.key);
  const ObjectSlot* object = objects.FindGeneration(slot, put.generation);
  if (object == nullptr || object->name_space != name_space) {
    return absl::OkStatus();  // it is no more, which is what was asked for
  }
  if (object->state == ObjectState::kLive) {
    return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists,
                     "all its parts are sealed and it is committed");
  }
  Erase(slot, DeathCause::kAborted, now, rule);
  return absl::OkStatus();
}

absl::Status CoreState::Commit(SlotIndex slot, absl::Span<const uint32_t> failed, absl::Time now) {
  const auto has_failed = [&](uint8_t replica) {
    return std::find(failed.begin(), failed.end(), replica) != failed.end();
  };
  const uint32_t min_replicas = grants.At(slot).min_replicas;
  const uint32_t left = DropReplicas(slot, has_failed);
  if (left < min_replicas) {
    Erase(slot, DeathCause::kAborted, now);
    return MakeError(
        absl::StatusCode::kAborted, ErrorReason::kReplicasUnmet,
        absl::StrCat(left, " replicas were written; at least ", min_replicas, " were asked for"),
        {.hint = "start the put again; it will be placed anew"});
  }
  NoteUnproven(slot, now);
  grants.Close(slot);
  MakeLive(slot, now);
  ++totals.puts_committed;
  return absl::OkStatus();
}

bool CoreState::CommitSealed(SlotIndex slot, uint32_t enough, absl::Time now) {
  // Per replica: its parts, and how many of them are sealed.
  uint16_t parts[kMaxReplicas] = {};
  uint16_t sealed[kMaxReplicas] = {};
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    const SealMark mark{.replica = part.replica, .part = parts[part.replica]++};
    const SessionId reported = grants.SealedIn(slot, mark);
    if (reported == SessionId{}) return;
    // Where a later inventory is complete it would have named it again.
    const NodeRecord& node = nodes[part.node];
    if (reported == node.session || !node.is_usable()) ++sealed[part.replica];
  });
  std::vector<uint32_t> unsealed;
  uint32_t complete = 0;
  for (uint32_t i = 0; i < kMaxReplicas; ++i) {
    if (parts[i] == 0) continue;
    if (parts[i] == sealed[i]) {
      ++complete;
    } else {
      unsealed.push_back(i);
    }
  }
  if (complete < std::max<uint32_t>(enough, 1)) return false;
  return Commit(slot, unsealed, now).ok();
}

}  // namespace moonpool::master
