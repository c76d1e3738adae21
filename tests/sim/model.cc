#include "tests/sim/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::sim {
namespace {

// A call may end a little after its deadline: answers are looked at in steps of virtual time.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(2);
// A request whose caller has given up may still be under way this long: where nothing is broken,
// and where messages straggle.
constexpr absl::Duration kLateMessage = absl::Milliseconds(5);
constexpr absl::Duration kLateStraggler = absl::Seconds(25);
// Of a request that nobody waits for any more, on top of what the master allows.
constexpr absl::Duration kLongestGrant = absl::Seconds(30);
// A call that was paused, or that outlasts a master, is made again this long after it began.
constexpr absl::Duration kLateCaller = absl::Seconds(25);
constexpr size_t kStoryLines = 24;

}  // namespace

void Model::Tell(const std::string& key, absl::Time now, absl::string_view what) {
  std::deque<std::string>& story = keys_[key].story;
  story.push_back(absl::StrCat(absl::FormatDuration(now - absl::UnixEpoch()), " ", what));
  if (story.size() > kStoryLines) story.pop_front();
}

std::string Model::StoryOf(const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return "";
  std::string text;
  for (const std::string& line : found->second.story) absl::StrAppend(&text, "\n    ", line);
  return text;
}

uint64_t Model::PutStarted(const std::string& key, size_t size, absl::Time now) {
  ++counts_.puts;
  attempts_.push_back(Attempt{.key = key, .size = size, .started = now});
  keys_[key].attempts.push_back(attempts_.size());
  Tell(key, now, absl::StrCat("put ", attempts_.size(), " starts, ", size, " bytes"));
  return attempts_.size();
}

void Model::Wished(const std::string& key, uint32_t replicas) {
  uint32_t& wished = keys_[key].wished;
  wished = wished == 0 ? replicas : std::min(wished, replicas);
}

uint32_t Model::WishedByAll(const std::string& key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? 0 : found->second.wished;
}

std::string Model::PutEnded(uint64_t attempt_id, const absl::Status& status, int starts,
                            absl::Time now) {
  Attempt& attempt = attempts_[attempt_id - 1];
  attempt.ended = now;
  attempt.may_leave_grant = starts > 1 || !(status.ok() || absl::IsAlreadyExists(status));
  Tell(attempt.key, now, absl::StrCat("put ", attempt_id, " ends: ", Describe(status)));
  if (status.ok()) {
    ++counts_.acknowledged;
    attempt.acknowledged = true;
    return "";
  }
  const ErrorReason reason = ReasonOf(status);
  ++counts_.refusals[std::string(ReasonName(reason))];
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      attempt.refused = true;
      return absl::StrCat("a valid put was refused: ", Describe(status));
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return "";  // its bytes may have been sealed before the word came
    case absl::StatusCode::kResourceExhausted: return "";
    case absl::StatusCode::kUnavailable:
      // Somebody looks at the bytes, of one replica or of all, and the caller could not wait for
      // others.
      if (reason == ErrorReason::kBytesPinned || reason == ErrorReason::kReplicasUnmet) return "";
      [[fallthrough]];
    case absl::StatusCode::kCancelled:
      // A node is let in once the store has it.
      return excuses_.faulty() || excuses_.master_crashes || excuses_.meta_failures ||
                     MayMissANode(attempt.started)
                 ? ""
                 : absl::StrCat("put failed without a fault: ", Describe(status));
    case absl::StatusCode::kDataLoss:
      // Its last write was damaged on the way, and there was no time for another.
      return excuses_.network_faults
                 ? ""
                 : absl::StrCat("a put was damaged without a fault: ", Describe(status));
    default:
      return absl::StrCat("put ended with an error that no put may have: ", Describe(status));
  }
}

std::string Model::CheckContent(const std::string& key, absl::Span<const std::byte> bytes,
                                absl::Time begun, absl::Time now) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return absl::StrCat("read a value of ", key, ", which nobody put");
  const uint64_t id = AttemptOf(key, bytes);
  if (id == 0) return absl::StrCat("read ", bytes.size(), " bytes of ", key, " that nobody wrote");
  // For an empty value any attempt of that size may be meant: it is wrong only if all are.
  std::string why = "no put of this key had this value";
  for (const uint64_t candidate : found->second.attempts) {
    const Attempt& attempt = attempts_[candidate - 1];
    if (id != kEmptyValue && candidate != id) continue;
    if (attempt.size != bytes.size()) continue;
    if (attempt.refused) {
      why = "of a put that was refused for certain";
    } else if (attempt.started > now) {
      why = "of a put that has not begun";
    } else if (found->second.removal.covers(attempt, begun)) {
      why = "that was removed, with the removal confirmed before the read began";
    } else {
      return "";
    }
  }
  return absl::StrCat("read a value of ", key, " ", why);
}

absl::Duration Model::LatestRequest() const {
  absl::Duration late = excuses_.network_faults ? kLateStraggler : kLateMessage;
  if (excuses_.slow_callers || excuses_.master_crashes) late += kLateCaller;
  return late;
}

bool Model::MayBeRemoved(const Key& key, const Attempt& attempt, absl::Time begun) const {
  const absl::Duration late = LatestRequest();
  for (const absl::Time start : key.unsettled_removes) {
    if (start <= begun && attempt.started <= start + late) return true;
  }
  return false;
}

bool Model::HasOpenGrant(const Key& key, uint64_t acknowledged, absl::Time begun) const {
  const absl::Time stored = attempts_[acknowledged - 1].ended;
  for (const uint64_t id : key.attempts) {
    const Attempt& attempt = attempts_[id - 1];
    if (attempt.ended >= begun && id != acknowledged) return true;
    if (attempt.may_leave_grant && attempt.ended + LatestRequest() + kLongestGrant > stored) {
      return true;
    }
  }
  return false;
}

std::string Model::CheckMiss(const std::string& key, const absl::Status& status,
                             absl::Time begun) const {
  const ErrorReason reason = ReasonOf(status);
  const bool is_away = MayMissANode(begun);
  const bool faulty = excuses_.faulty() || is_away;
  const bool is_recovering = MayHaveForgotten(begun);
  if (!absl::IsNotFound(status)) {
    const bool is_excused = faulty || excuses_.master_crashes;
    if (is_excused && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))) return "";
    return absl::StrCat("get of ", key, " failed: ", Describe(status));
  }
  const auto found = keys_.find(key);
  if (found == keys_.end()) return "";
  const Key& state = found->second;
  uint64_t acknowledged = 0;  // the latest
  for (const uint64_t id : state.attempts) {
    const Attempt& attempt = attempts_[id - 1];
    // A put that ended before the get began, and that no removal may have taken: one that overlaps
    // it may take effect before or after it.
    if (attempt.acknowledged && attempt.ended <= begun &&
        attempt.started > std::max(state.last_remove_started, state.last_remove_ended) &&
        !MayBeRemoved(state, attempt, begun)) {
      acknowledged = id;
    }
  }
  if (acknowledged == 0) return "";
  switch (reason) {
    case ErrorReason::kBeingWritten:
    case ErrorReason::kGrantAborted:
    case ErrorReason::kExpired:
      // Of another attempt, after the object had gone; or of this one, when its start was repeated.
      if (!HasOpenGrant(state, acknowledged, begun)) {
        return absl::StrCat("acknowledged ", key,
                            " is said never to have been: ", Describe(status));
      }
      [[fallthrough]];
    case ErrorReason::kEvicted:
      // While a node was away the others had to make do, and what they evicted is gone.
      return excuses_.evicts || faulty || is_recovering || excuses_.nodes_killed ||
                     excuses_.refuses_old()
                 ? ""
                 : absl::StrCat(key, " was evicted without need");
    case ErrorReason::kNodeLost:
      return faulty || was_given_up_ ? "" : absl::StrCat(key, " was lost with no node lost");
    case ErrorReason::kChecksumMismatch:
      return faulty ? "" : absl::StrCat(key, " was corrupted without a fault");
    case ErrorReason::kStaleGeneration:
      // Put and evicted again and again while the reader looked for it.
      return excuses_.evicts || faulty ? "" : absl::StrCat(key, " was nowhere to be found");
    default:
      // A master that was started since does not know what was evicted or lost before.
      return reason == ErrorReason::kNeverStored &&
                     (excuses_.nodes_lost || is_away || is_recovering || excuses_.refuses_old() ||
                      (excuses_.forgetful && (was_given_up_ || excuses_.evicts)) ||
                      (excuses_.master_crashes && excuses_.evicts))
                 ? ""
                 : absl::StrCat("acknowledged ", key, " is missing: ", Describe(status));
  }
}

std::string Model::Got(const std::string& key, const absl::Status& status,
                       absl::Span<const std::byte> bytes, absl::Time begun, absl::Time now) {
  ++counts_.gets;
  Tell(key, now,
       absl::StrCat("get since ", absl::FormatDuration(begun - absl::UnixEpoch()), ": ",
                    status.ok() ? absl::StrCat("put ", AttemptOf(key, bytes)) : Describe(status)));
  if (status.ok()) {
    ++counts_.hits;
    return CheckContent(key, bytes, begun, now);
  }
  ++counts_.misses[std::string(ReasonName(ReasonOf(status)))];
  return CheckMiss(key, status, begun);
}

void Model::RemoveStarted(const std::string& key, absl::Time now) {
  Key& state = keys_[key];
  state.last_remove_started = now;
  state.unsettled_removes.push_back(now);
  Tell(key, now, "remove starts");
  state.held_until.clear();  // holds protect against eviction, not against removal
}

std::string Model::RemoveEnded(const std::string& key, const absl::Status& status,
                               const RemoveEnd& end, absl::Time now) {
  ++counts_.removes;
  Key& state = keys_[key];
  state.last_remove_ended = now;
  Tell(key, now,
       absl::StrCat("remove since ", absl::FormatDuration(end.begun - absl::UnixEpoch()),
                    " ends: ", Describe(status),
                    status.ok() && !end.binds_successors ? ", by a master that lacks nodes" : ""));
  if (end.timed_out) return "";
  // Gone for readers, until a restart of the master.
  if (excuses_.meta_failures && ReasonOf(status) == ErrorReason::kNotSaved) return "";
  // The last attempt has found no master; what became of those before is open.
  if (!absl::IsUnavailable(status) && end.sent <= 1) {
    std::erase(state.unsettled_removes, end.begun);
  }
  // Bytes that were evicted, or that a node has which was not there to be told, may still be read
  // through a hint.
  const bool is_absent = excuses_.keeps_state && (status.ok() || absl::IsNotFound(status));
  if (is_absent && end.begun > state.absence.from) state.absence = {.from = end.begun, .at = now};
  if (status.ok()) {
    Removal& removal = end.binds_successors ? state.removal : state.short_removal;
    if (!end.binds_successors && std::exchange(state.short_life, master_lives_) != master_lives_) {
      removal = {};
    }
    if (end.begun > removal.from) removal = {.from = end.begun, .at = now};
  }
  const bool faulty = excuses_.faulty() || excuses_.master_crashes || excuses_.meta_failures ||
                      MayMissANode(end.begun);
  if (status.ok() || absl::IsNotFound(status)) return "";
  if (faulty && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))) return "";
  return absl::StrCat("remove of ", key, " failed: ", Describe(status));
}

void Model::Held(const std::string& key, uint64_t client, absl::Time begun, absl::Time until) {
  ++counts_.held;
  Key& state = keys_[key];
  // A removal that overtakes the answer ends the hold before it is known.
  const absl::Time settled = state.last_remove_ended + kLateMessage;
  absl::Duration late = kLateMessage;
  if (excuses_.slow_callers || excuses_.master_crashes) late += kLateCaller;
  const bool removing =
      !state.unsettled_removes.empty() && state.unsettled_removes.back() + late >= begun;
  if (!removing && settled < begun) state.held_until[client] = until;
}

std::string Model::GotWhileHeld(const std::string& key, uint64_t client, const absl::Status& status,
                                absl::Time begun, absl::Time now) {
  Key& state = keys_[key];
  const auto held = state.held_until.find(client);
  if (held == state.held_until.end() || now > held->second) return "";
  if (status.ok() || excuses_.faulty() || MayHaveForgotten(begun) || MayMissANode(begun) ||
      was_given_up_ || excuses_.refuses_old()) {
    return "";
  }
  // The call itself may have ended for want of a master.
  if (excuses_.master_crashes && !absl::IsNotFound(status)) return "";
  return absl::StrCat(key, " was not readable while its lease was held: ", Describe(status));
}

std::string Model::SaidToExist(const std::string& key, absl::Time begun, absl::Time now) {
  Tell(key, now, "said to exist");
  const Key& state = keys_[key];
  const bool is_short = state.short_life == master_lives_;
  const bool may_exist =
      std::any_of(state.attempts.begin(), state.attempts.end(), [&](uint64_t id) {
        const Attempt& attempt = attempts_[id - 1];
        return !state.removal.covers(attempt, begun) && !state.absence.covers(attempt, begun) &&
               !(is_short && state.short_removal.covers(attempt, begun));
      });
  return may_exist ? "" : absl::StrCat(key, " is said to exist, and all that was put is removed");
}

std::string Model::Viewed(const std::string& key, absl::Span<const std::byte> bytes,
                          absl::Time begun, absl::Time now) {
  ++counts_.views;
  Tell(key, now, absl::StrCat("view of put ", AttemptOf(key, bytes)));
  return CheckContent(key, bytes, begun, now);
}

void Model::NodeKilled(absl::Time now) {
  if (nodes_back_at_ != absl::InfiniteFuture()) killed_at_ = now;
  nodes_back_at_ = absl::InfiniteFuture();
  for (auto& [key, state] : keys_) Tell(key, now, "a node is killed");
}

void Model::NodesAreBack(absl::Time now) {
  if (nodes_back_at_ != absl::InfiniteFuture()) return;
  nodes_back_at_ = now;
  was_given_up_ = was_given_up_ || now - killed_at_ > kGivenUpAfter;
  for (auto& [key, state] : keys_) Tell(key, now, "all nodes are back");
}

void Model::MasterCrashed(absl::Time now) {
  ++master_lives_;
  recovered_at_ = absl::InfiniteFuture();
  for (auto& [key, state] : keys_) Tell(key, now, "the master crashes");
}

void Model::MasterRecovered(absl::Time now) { recovered_at_ = now; }

std::string Model::Timed(const char* call, absl::Time deadline, absl::Time now) {
  if (now <= deadline + kDeadlineSlack) return "";
  return absl::StrCat(call, " ended ", absl::FormatDuration(now - deadline), " after its deadline");
}

}  // namespace moonpool::sim
