// Locate, MatchPrefix, Exists: looking, and leases for those who ask.
#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"
#include "master/core/look_ahead.h"

namespace moonpool::master {

absl::StatusOr<std::vector<LocateOutcome>> Core::Locate(const LocateCommand& command,
                                                        absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(command.caller, command.keys.size()));
  std::vector<LocateOutcome> outcomes;
  outcomes.reserve(command.keys.size());
  LookAhead ahead(s.objects, name_space, command.keys);
  for (const absl::string_view key : command.keys) {
    LocateOutcome& outcome = outcomes.emplace_back();
    s.LocateOne(ahead.Next(), name_space, key, command.lease, now, outcome);
    if (command.wait_for_writer && ReasonOf(outcome.status) == ErrorReason::kBeingWritten) {
      outcome.wait = Wait::kWriter;
    }
  }
  return outcomes;
}

absl::StatusOr<MatchPrefixResult> Core::MatchPrefix(const MatchPrefixCommand& command,
                                                    absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(command.caller, command.keys.size()));
  MatchPrefixResult result;
  LookAhead ahead(s.objects, name_space, command.keys);
  for (const absl::string_view key : command.keys) {
    LocateOutcome outcome;
    s.LocateOne(ahead.Next(), name_space, key, command.lease, now, outcome);
    if (!outcome.status.ok()) {
      result.miss = std::move(outcome.status);
      break;
    }
    result.locations.push_back(std::move(outcome.location));
  }
  return result;
}

absl::StatusOr<std::vector<absl::Status>> Core::Exists(const Caller& caller,
                                                       absl::Span<const absl::string_view> keys,
                                                       absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, keys.size()));
  std::vector<absl::Status> results;
  results.reserve(keys.size());
  LookAhead ahead(s.objects, name_space, keys);
  for (const absl::string_view key : keys) {
    const uint64_t hash = ahead.Next();
    absl::Status status = s.CheckKey(key);
    results.push_back(status.ok() ? s.MissOf(hash, name_space, key, now) : std::move(status));
  }
  return results;
}

void CoreState::LocateOne(uint64_t hash, NamespaceId name_space, absl::string_view key,
                          absl::Duration lease, absl::Time now, LocateOutcome& outcome) {
  outcome.status = CheckKey(key);
  if (!outcome.status.ok()) return;
  const SlotIndex slot = objects.Find(hash, name_space, key);
  const bool is_live = slot != kNoSlot && objects[slot].state == ObjectState::kLive;
  Location& location = outcome.location;
  if (is_live) AppendReplicas(slot, /*only_up=*/true, location.replicas);
  if (location.replicas.empty()) {
    if (is_live) SettleLosses(slot, now);
    ++totals.keys_missed;
    outcome.status = MissOf(hash, name_space, key, now);
    return;
  }
  ObjectSlot& object = objects[slot];
  location.generation = object.generation;
  location.handle = slot;
  location.size_bytes = object.size_bytes;
  lease = std::min(lease, options.max_lease);
  if (lease > absl::ZeroDuration() &&
      leases.Extend(slot, name_space, FootprintOf(slot), now + lease, nodes.capacity_bytes())) {
    location.lease = lease;
    if (!std::exchange(object.is_leased, true)) UpdateEvictable(slot);
  }
  policy->OnAccess(slot);
  keeper.OnRead(slot);
  ++totals.keys_located;
}

}  // namespace moonpool::master
