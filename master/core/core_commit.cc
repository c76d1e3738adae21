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

absl::StatusOr<std::vector<absl::Status>> Core::CommitPuts(const Caller& caller,
                                                           absl::Span<const CommitPut> puts,
                                                           absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, puts.size()));
  std::vector<absl::Status> results;
  results.reserve(puts.size());
  for (const CommitPut& put : puts) {
    const ObjectSlot* object = s.objects.FindGeneration(put.handle, put.generation);
    if (object == nullptr || object->name_space != name_space) {
      results.push_back(GrantAborted());
    } else if (object->state == ObjectState::kLive) {
      results.push_back(absl::OkStatus());
    } else {
      results.push_back(s.Commit(put.handle, put.failed_replicas, now));
    }
  }
  return results;
}

absl::StatusOr<std::vector<absl::Status>> Core::AbortPuts(const Caller& caller,
                                                          absl::Span<const AbortPut> puts,
                                                          absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, puts.size()));
  std::vector<absl::Status> results;
  results.reserve(puts.size());
  for (const AbortPut& put : puts) {
    const ObjectSlot* object = s.objects.FindGeneration(put.handle, put.generation);
    if (object == nullptr || object->name_space != name_space) {
      results.push_back(absl::OkStatus());  // it is no more, which is what was asked for
    } else if (object->state == ObjectState::kLive) {
      results.push_back(MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists,
                                  "all its parts are sealed and it is committed"));
    } else {
      s.Erase(put.handle, DeathCause::kAborted, now,
              ReleaseRule{.pinned = put.pinned, .pinned_until = now + s.options.condemn_duration});
      results.push_back(absl::OkStatus());
    }
  }
  return results;
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
    if (grants.IsSealed(slot, mark)) ++sealed[part.replica];
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
