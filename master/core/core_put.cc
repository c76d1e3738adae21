// StartPuts: grants.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"
#include "master/core/look_ahead.h"

namespace moonpool::master {
namespace {

absl::Status BadArgument(absl::string_view message, absl::string_view hint = "") {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message,
                   {.hint = std::string(hint)});
}

absl::Status Duplicate(absl::string_view key) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kDuplicateKey,
                   "the key stands in this batch twice; the first one counts",
                   {.key = std::string(key)});
}

bool MayPass(const absl::Status& status) {
  const ErrorReason reason = ReasonOf(status);
  return reason == ErrorReason::kNoSpace || reason == ErrorReason::kNoNodes ||
         reason == ErrorReason::kLimitReached;
}

}  // namespace

absl::StatusOr<std::vector<PutOutcome>> Core::StartPuts(const StartPutsCommand& command,
                                                        absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  PutContext put{.command = &command, .now = now};
  ASSIGN_OR_RETURN(put.name_space, s.Admit(command.caller, command.puts.size()));
  put.replicas = std::max<uint32_t>(command.replicas, 1);
  put.min_replicas = command.min_replicas == 0 ? put.replicas : command.min_replicas;
  if (put.replicas > kMaxReplicas || put.min_replicas > put.replicas) {
    return BadArgument(absl::StrCat(put.replicas, " replicas, at least ", put.min_replicas),
                       absl::StrCat("min_replicas <= replicas <= ", kMaxReplicas));
  }
  put.writer_host = s.nodes.FindLabel(command.caller.host_id);
  std::vector<PutOutcome> outcomes;
  outcomes.reserve(command.puts.size());
  absl::flat_hash_set<absl::string_view> keys;
  if (command.puts.size() > 1) keys.reserve(command.puts.size());
  LookAhead ahead(s.objects, put.name_space, command.puts);
  for (const PutKey& key : command.puts) {
    const uint64_t hash = ahead.Next();
    if (command.puts.size() > 1 && !keys.insert(key.key).second && !key.key.empty()) {
      outcomes.push_back(PutOutcome{.status = Duplicate(key.key)});
      continue;
    }
    PutOutcome& outcome = outcomes.emplace_back();
    s.StartPut(put, hash, key, outcome);
    const bool is_refused = outcome.grant == std::nullopt && outcome.wait == Wait::kNone &&
                            outcome.existing_generation == Generation{};
    if (is_refused) ++s.totals.puts_refused;
  }
  return outcomes;
}

void CoreState::StartPut(const PutContext& put, uint64_t hash, const PutKey& key,
                         PutOutcome& outcome) {
  outcome.status = CheckPut(key, put.min_replicas);
  if (!outcome.status.ok()) return;
  SlotIndex slot = FindSettled(hash, put.name_space, key.key, put.now);
  if (slot != kNoSlot && objects[slot].state != ObjectState::kAbsent) {
    return Taken(put, key, slot, outcome);
  }
  if (slot == kNoSlot) slot = objects.Add(hash, put.name_space, key.key);
  outcome.status = slot == kNoSlot ? LimitReached("objects", "--limit-objects", options.max_objects)
                                   : OpenGrantFor(put, slot, key);
  if (outcome.status.ok()) {
    ++totals.puts_started;
    SettleObituary(hash);
    TellGrant(slot, put.now, outcome.grant.emplace());
  } else if (put.command->wait_for_space && MayPass(outcome.status)) {
    outcome.wait = Wait::kSpace;
  }
}

SlotIndex CoreState::FindSettled(uint64_t hash, NamespaceId name_space, absl::string_view key,
                                 absl::Time now) {
  const SlotIndex slot = objects.Find(hash, name_space, key);
  const bool is_live = slot != kNoSlot && objects[slot].state == ObjectState::kLive;
  return is_live && SettleLosses(slot, now) ? objects.Find(hash, name_space, key) : slot;
}

void CoreState::Taken(const PutContext& put, const PutKey& key, SlotIndex slot,
                      PutOutcome& outcome) {
  const ObjectSlot& object = objects[slot];
  if (object.state == ObjectState::kLive) {
    outcome.status = TakenBy(slot, put.now);
    outcome.existing_generation = object.generation;
    return;
  }
  const OpenGrant& grant = grants.At(slot);
  // A grant of another size is no answer to this put, whoever reuses a request id for it.
  if (grant.client_id == put.command->caller.client_id &&
      grant.request_id == put.command->request_id && object.size_bytes == key.size_bytes) {
    return TellGrant(slot, put.now, outcome.grant.emplace());
  }
  outcome.status = TakenBy(slot, put.now);
  if (put.command->wait_for_writer) outcome.wait = Wait::kWriter;
}

absl::Status CoreState::TakenBy(SlotIndex slot, absl::Time now) {
  if (objects[slot].state == ObjectState::kLive) {
    policy->OnAccess(slot);
    return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists,
                     "the key has an object",
                     {.hint = "objects never change: take it as stored, or remove it first"});
  }
  return MakeError(absl::StatusCode::kAborted, ErrorReason::kBeingWritten,
                   "another writer holds the grant for the key",
                   {.hint = "wait for it, or treat the key as stored",
                    .retry_after = std::max(grants.At(slot).deadline - now, absl::ZeroDuration())});
}

absl::Status CoreState::CheckPut(const PutKey& key, uint32_t min_replicas) const {
  RETURN_IF_ERROR(CheckKey(key.key));
  if (key.parent.size() > kMaxKeyBytes) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong,
        absl::StrCat("the parent has ", key.parent.size(), " bytes; at most ", kMaxKeyBytes));
  }
  if (key.parent == key.key) return BadArgument("the key names itself as its parent");
  // Compared without sums, which could overflow.
  const uint64_t capacity = nodes.capacity_bytes();
  const uint64_t fair = capacity / min_replicas;
  if (capacity > 0 && (key.size_bytes > fair || fair - key.size_bytes < kPartHeaderBytes)) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kValueTooLarge,
                     absl::StrCat("the value has ", key.size_bytes, " bytes, and ", min_replicas,
                                  min_replicas == 1 ? " replica" : " replicas",
                                  " of it cannot fit into a pool of ", capacity, " bytes"),
                     {.hint = "split the value, ask for fewer replicas, or add nodes"});
  }
  return absl::OkStatus();
}

absl::Status CoreState::OpenGrantFor(const PutContext& put, SlotIndex slot, const PutKey& key) {
  ObjectSlot& object = objects[slot];
  const auto undo = [&](absl::Status status) {
    UnlinkParent(slot);
    object.state = ObjectState::kAbsent;
    object.size_bytes = 0;
    object.more_wished = 0;
    RemoveIfUnused(slot);
    return status;
  };
  // From here on eviction leaves the slot and its parent alone.
  object.state = ObjectState::kGranted;
  object.size_bytes = key.size_bytes;
  object.more_wished = (put.replicas - 1) & 7;
  if (grants.size() >= options.max_open_grants) {
    return undo(LimitReached("open grants", "--limit-grants", options.max_open_grants));
  }
  if (!LinkParent(slot, key.parent))
    return undo(LimitReached("objects", "--limit-objects", options.max_objects));
  absl::StatusOr<PlacedReplicas> placed = PlaceReplicas(put, key.size_bytes);
  if (!placed.ok()) return undo(std::move(placed).status());
  object.generation = NextGeneration();
  AttachGranted(slot, *placed);
  const Caller& caller = put.command->caller;
  grants.Open(slot, OpenGrant{.generation = object.generation,
                              .client_id = caller.client_id,
                              .request_id = put.command->request_id,
                              .deadline = put.now + std::min(caller.timeout, options.max_grant),
                              .min_replicas = put.min_replicas});
  return absl::OkStatus();
}

void CoreState::AttachGranted(SlotIndex slot, const PlacedReplicas& placed) {
  StoredParts parts;
  for (size_t i = 0; i < placed.size(); ++i) {
    for (StoredPart part : placed[i]) {
      part.replica = part.cut = static_cast<uint8_t>(i);
      parts.push_back(part);
    }
  }
  Attach(slot, std::move(parts), ByteUse::kGranted);
}

void CoreState::TellGrant(SlotIndex slot, absl::Time now, Grant& grant) const {
  grant.generation = objects[slot].generation;
  grant.handle = slot;
  AppendReplicas(slot, /*only_up=*/false, grant.replicas);
  grant.remaining = std::max(grants.At(slot).deadline - now, absl::ZeroDuration());
}

}  // namespace moonpool::master
