// Locate, MatchPrefix, Exists: looking, and leases for those who ask.
#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {

absl::StatusOr<std::vector<LocateOutcome>> Core::Locate(const LocateCommand& command,
                                                        absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(command.caller, command.keys.size()));
  std::vector<LocateOutcome> outcomes;
  outcomes.reserve(command.keys.size());
  for (size_t i = 0; i < command.keys.size(); ++i) {
    s.LookAhead(name_space, command.keys, i);
    outcomes.push_back(s.LocateOne(name_space, command.keys[i], command.lease, now));
    LocateOutcome& outcome = outcomes.back();
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
  for (size_t i = 0; i < command.keys.size(); ++i) {
    s.LookAhead(name_space, command.keys, i);
    LocateOutcome outcome = s.LocateOne(name_space, command.keys[i], command.lease, now);
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
  for (size_t i = 0; i < keys.size(); ++i) {
    s.LookAhead(name_space, keys, i);
    absl::Status status = s.CheckKey(keys[i]);
    results.push_back(status.ok() ? s.MissOf(name_space, keys[i], now) : std::move(status));
  }
  return results;
}

void CoreState::LookAhead(NamespaceId name_space, absl::Span<const absl::string_view> keys,
                          size_t next) const {
  constexpr size_t kAtOnce = ObjectTable::kPrefetchKeys;
  if (next % kAtOnce == 0) objects.Prefetch(name_space, keys.subspan(next, kAtOnce));
}

LocateOutcome CoreState::LocateOne(NamespaceId name_space, absl::string_view key,
                                   absl::Duration lease, absl::Time now) {
  if (absl::Status status = CheckKey(key); !status.ok()) return {.status = std::move(status)};
  const SlotIndex slot = objects.Find(name_space, key);
  Replicas replicas;
  if (slot != kNoSlot && objects[slot].state == ObjectState::kLive) {
    replicas = ReplicasOf(slot, /*only_up=*/true);
  }
  if (replicas.empty()) {
    if (slot != kNoSlot && objects[slot].state == ObjectState::kLive) SettleLosses(slot, now);
    ++totals.keys_missed;
    return {.status = MissOf(name_space, key, now)};
  }
  ObjectSlot& object = objects[slot];
  LocateOutcome outcome{.status = absl::OkStatus(),
                        .location = {.generation = object.generation,
                                     .handle = slot,
                                     .size_bytes = object.size_bytes,
                                     .replicas = std::move(replicas)}};
  lease = std::min(lease, options.max_lease);
  if (lease > absl::ZeroDuration() &&
      leases.Extend(slot, name_space, FootprintOf(slot), now + lease, nodes.capacity_bytes())) {
    outcome.location.lease = lease;
    if (!std::exchange(object.is_leased, true)) UpdateEvictable(slot);
  }
  policy->OnAccess(slot);
  keeper.OnRead(slot);
  ++totals.keys_located;
  return outcome;
}

}  // namespace moonpool::master
