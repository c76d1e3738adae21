// StartPuts, CommitPuts, AbortPuts.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "master/handlers/handlers.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

struct PutAttempt {
  std::vector<int> waiting;  // results that may fare better later
  Waiter::Progress progress = Waiter::Progress::kDone;
};

void WriteGrant(const Grant& grant, absl::Duration elapsed, PlaceWriter& places, v1::Grant* out) {
  out->set_generation(grant.generation.value);
  out->set_handle(grant.handle);
  places.Write(grant.replicas, out->mutable_replicas());
  // The client counts from when it sent the request.
  out->set_deadline_ms(ToWireMs(grant.remaining + elapsed));
}

void WriteOutcome(const PutOutcome& outcome, absl::Duration elapsed, PlaceWriter& places,
                  v1::PutResult* out) {
  if (!outcome.status.ok()) StatusToProto(outcome.status, out->mutable_status());
  if (outcome.existing_generation.value != 0) {
    out->set_existing_generation(outcome.existing_generation.value);
  }
  if (outcome.grant.has_value()) {
    WriteGrant(*outcome.grant, elapsed, places, out->mutable_grant());
  }
}

// `elapsed`: since the request came. When it fails, `response` is as it was.
absl::StatusOr<PutAttempt> TryPuts(Core& core, const v1::StartPutsRequest& request, bool may_wait,
                                   WireCaller::Touches touches, absl::Duration elapsed,
                                   absl::Time now, v1::StartPutsResponse& response) {
  const WireCaller caller(request.header(), touches);
  absl::InlinedVector<PutKey, 64> puts;
  puts.reserve(static_cast<size_t>(request.puts_size()));
  for (const v1::PutKey& put : request.puts()) {
    puts.push_back({.key = put.key(), .size_bytes = put.size_bytes(), .parent = put.parent()});
  }
  ASSIGN_OR_RETURN(const std::vector<PutOutcome> outcomes,
                   core.StartPuts({.caller = *caller,
                                   .request_id = request.request_id(),
                                   .puts = puts,
                                   .replicas = request.replicas(),
                                   .min_replicas = request.min_replicas(),
                                   .wait_for_space = may_wait && request.wait_for_space(),
                                   .wait_for_writer = may_wait && request.wait_for_writer()},
                                  now));
  PutAttempt attempt;
  response.Clear();
  SetHeader(core.term(), response.mutable_header());
  response.mutable_results()->Reserve(static_cast<int>(outcomes.size()));
  PlaceWriter places(core);
  for (const PutOutcome& outcome : outcomes) {
    if (outcome.wait != Wait::kNone) {
      attempt.waiting.push_back(response.results_size());
      const bool wants_space =
          outcome.wait == Wait::kSpace || attempt.progress == Waiter::Progress::kSpace;
      attempt.progress = wants_space ? Waiter::Progress::kSpace : Waiter::Progress::kOther;
    }
    WriteOutcome(outcome, elapsed, places, response.add_results());
  }
  places.WriteNodes(response.mutable_nodes());
  return attempt;
}

// Gives back what an answer that nobody will get has granted.
void AbortGrants(Core& core, const v1::RequestHeader& header, const v1::StartPutsResponse& response,
                 absl::Time now) {
  std::vector<AbortPut> aborts;
  for (const v1::PutResult& result : response.results()) {
    if (!result.has_grant()) continue;
    aborts.push_back(
        {.generation = Generation{result.grant().generation()}, .handle = result.grant().handle()});
  }
  if (aborts.empty()) return;
  const WireCaller caller(header, WireCaller::Touches::kIgnore);
  core.AbortPuts(*caller, aborts, now).IgnoreError();
}

void CountRefusals(const v1::StartPutsResponse& response, HandlerCounts& counts) {
  for (const v1::PutResult& result : response.results()) {
    if (!result.has_grant()) counts.refused.Add(result.status().detail().reason());
  }
}

// Whether grants of the present term may be given: OK, or why not yet.
absl::Status TermOutcome(const Core& core, const UnsavedChanges& unsaved) {
  return unsaved.OutcomeOf(core.term_saved_by()).value_or(SaveIsSlow());
}

// The response holds what the last attempt has granted.
class WaitingPut final : public Waiter {
 public:
  WaitingPut(Core& core, const UnsavedChanges& unsaved, HandlerCounts& counts,
             const v1::StartPutsRequest& request, absl::Time now, Done<v1::StartPutsResponse> done)
      : core_(core),
        unsaved_(unsaved),
        counts_(counts),
        request_(request),
        arrived_at_(now),
        done_(std::move(done)) {}

  size_t key_count() const override { return static_cast<size_t>(request_.puts_size()); }

  Progress Retry(absl::Time now) override { return Try(/*may_wait=*/true, now); }
  void Expire(absl::Time now) override { Try(/*may_wait=*/false, now); }
  void Fail(const absl::Status& status, absl::Time now) override {
    AbortGrants(core_, request_.header(), done_.response(), now);
    std::move(done_)(status);
  }

 private:
  Progress Try(bool may_wait, absl::Time now) {
    if (const absl::Status term = TermOutcome(core_, unsaved_); !term.ok()) {
      if (may_wait && absl::IsDeadlineExceeded(term)) return Progress::kOther;
      AbortGrants(core_, request_.header(), done_.response(), now);
      std::move(done_)(term);
      return Progress::kDone;
    }
    const absl::StatusOr<PutAttempt> attempt =
        TryPuts(core_, request_, may_wait, WireCaller::Touches::kIgnore, now - arrived_at_, now,
                done_.response());
    if (!attempt.ok()) {
      std::move(done_)(attempt.status());
      return Progress::kDone;
    }
    if (attempt->progress != Progress::kDone) return attempt->progress;
    CountRefusals(done_.response(), counts_);
    std::move(done_)(absl::OkStatus());
    return Progress::kDone;
  }

  Core& core_;
  const UnsavedChanges& unsaved_;
  HandlerCounts& counts_;
  const v1::StartPutsRequest request_;
  const absl::Time arrived_at_;
  Done<v1::StartPutsResponse> done_;
};

absl::Status CheckStartPuts(const v1::StartPutsRequest& request) {
  if (request.replicas() > kMaxReplicas) {
    return BadArgument(absl::StrCat("replicas is ", request.replicas(), "; at most ", kMaxReplicas,
                                    " are allowed"));
  }
  if (request.min_replicas() > std::max(1u, request.replicas())) {
    return BadArgument(
        absl::StrCat("min_replicas is ", request.min_replicas(), ", more than replicas"));
  }
  return absl::OkStatus();
}

absl::Status CheckCommitPuts(const v1::CommitPutsRequest& request) {
  for (const v1::CommitPut& put : request.puts()) {
    if (put.failed_replicas_size() > static_cast<int>(kMaxReplicas)) {
      return BadArgument("failed_replicas names more replicas than there can be");
    }
  }
  if (request.spare().replicas() > kMaxReplicas) {
    return BadArgument("spare.replicas is more than there can be");
  }
  return absl::OkStatus();
}

absl::Status CheckPinned(const v1::AbortPutsRequest& request) {
  for (const v1::AbortPut& put : request.puts()) {
    if (put.pinned_size() > static_cast<int>(kMaxReplicas * kMaxPartsPerReplica)) {
      return BadArgument("pinned names more parts than there can be");
    }
  }
  return absl::OkStatus();
}

// A key that was taken counts like one that StartPuts refuses.
void WriteCommits(const v1::CommitPutsRequest& request, const std::vector<CommitOutcome>& outcomes,
                  v1::CommitPutsResponse& response, HandlerCounts& counts) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const CommitOutcome& outcome = outcomes[i];
    StatusToProto(outcome.status, response.add_results());
    if (request.puts(static_cast<int>(i)).key().empty()) continue;
    v1::BoundPut* bound = response.add_bound();
    if (outcome.status.ok()) bound->set_handle(outcome.handle);
    bound->set_existing_generation(outcome.existing_generation.value);
    const ErrorReason reason = ReasonOf(outcome.status);
    const bool is_refused = !outcome.status.ok() && reason != ErrorReason::kGrantAborted &&
                            reason != ErrorReason::kReplicasUnmet;
    if (is_refused) counts.refused.Add(static_cast<int>(reason));
  }
}

template <typename Response>
void WriteStatuses(const std::vector<absl::Status>& statuses, Response& response) {
  for (const absl::Status& status : statuses) {
    StatusToProto(status, response.add_results());
  }
}

}  // namespace

bool Handlers::HasToQueue(const v1::StartPutsRequest& request, absl::Time now) {
  if (!request.wait_for_space() || !waiters_.anyone_waits_for_space() || waiters_.full()) {
    return false;
  }
  // A put of what is there already needs no space and no turn.
  KeyViews keys;
  for (const v1::PutKey& put : request.puts()) keys.push_back(put.key());
  const WireCaller caller(request.header(), WireCaller::Touches::kIgnore);
  const absl::StatusOr<std::vector<absl::Status>> exists = core_.Exists(*caller, keys, now);
  if (!exists.ok()) return false;
  return std::any_of(exists->begin(), exists->end(), [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kNotFound;
  });
}

CallId Handlers::StartPuts(const v1::StartPutsRequest& request, absl::Time now,
                           Done<v1::StartPutsResponse> done) {
  absl::Status status = Admit(request.header(), request.puts_size());
  if (status.ok()) {
    status = CheckStartPuts(request);
    if (!status.ok()) ++counts_.bad_requests;
  }
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  const auto wait = [&](Waiter::Progress progress) {
    auto waiter =
        std::make_unique<WaitingPut>(core_, unsaved_, counts_, request, now, std::move(done));
    return waiters_.Add(std::move(waiter), progress, AnswerBy(request.header(), now));
  };
  // Seldom: a node has just raised the term.
  if (!unsaved_.IsSaved(core_.term_saved_by())) {
    if (!waiters_.full()) return wait(Waiter::Progress::kOther);
    ++counts_.waits_refused;
    std::move(done)(TooManyWaiters());
    return {};
  }
  CallId call;
  if (HasToQueue(request, now)) {
    call = wait(Waiter::Progress::kSpace);
    waiters_.MarkSpace();
    return call;
  }
  v1::StartPutsResponse& response = done.response();
  const absl::StatusOr<PutAttempt> attempt =
      TryPuts(core_, request, /*may_wait=*/true, WireCaller::Touches::kApply, absl::ZeroDuration(),
              now, response);
  if (!attempt.ok()) {
    std::move(done)(attempt.status());
  } else if (attempt->progress == Waiter::Progress::kDone || waiters_.full()) {
    for (const int index : attempt->waiting) {
      v1::PutResult* result = response.mutable_results(index);
      StatusToProto(TooManyWaiters(), result->mutable_status());
    }
    if (!attempt->waiting.empty()) ++counts_.waits_refused;
    CountRefusals(response, counts_);
    std::move(done)(absl::OkStatus());
  } else {
    call = wait(attempt->progress);
  }
  Settle(now);
  return call;
}

void Handlers::CommitPuts(const v1::CommitPutsRequest& request, absl::Time now,
                          Done<v1::CommitPutsResponse> done) {
  absl::Status status = Admit(request.header(), request.puts_size());
  if (status.ok()) status = CheckCommitPuts(request);
  if (!status.ok()) return std::move(done)(std::move(status));

  const WireCaller caller(request.header());
  std::vector<CommitPut> puts(static_cast<size_t>(request.puts_size()));
  for (size_t i = 0; i < puts.size(); ++i) {
    const v1::CommitPut& put = request.puts(static_cast<int>(i));
    puts[i].generation = Generation{put.generation()};
    puts[i].handle = put.handle();
    puts[i].failed_replicas.assign(put.failed_replicas().begin(), put.failed_replicas().end());
    puts[i].key = put.key();
    puts[i].parent = put.parent();
  }
  const absl::StatusOr<std::vector<CommitOutcome>> outcomes = core_.CommitPuts(*caller, puts, now);
  v1::CommitPutsResponse& response = done.response();
  if (outcomes.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    WriteCommits(request, *outcomes, response, counts_);
    GiveSpares(request, *caller, now, response);
  }
  std::move(done)(outcomes.status());
  Settle(now);
}

// For puts to come; whoever waits for space or for the term comes first.
void Handlers::GiveSpares(const v1::CommitPutsRequest& request, const Caller& caller,
                          absl::Time now, v1::CommitPutsResponse& response) {
  const bool may_grant =
      !waiters_.anyone_waits_for_space() && unsaved_.IsSaved(core_.term_saved_by());
  if (!request.has_spare() || !may_grant) return;
  const SpareWish wish{.size_bytes = request.spare().size_bytes(),
                       .replicas = request.spare().replicas(),
                       .count = request.spare().count()};
  PlaceWriter places(core_);
  for (const Grant& grant : core_.GrantSpares(caller, wish, now)) {
    WriteGrant(grant, absl::ZeroDuration(), places, response.add_spares());
  }
  places.WriteNodes(response.mutable_nodes());
}

void Handlers::AbortPuts(const v1::AbortPutsRequest& request, absl::Time now,
                         Done<v1::AbortPutsResponse> done) {
  absl::Status status = Admit(request.header(), request.puts_size());
  if (status.ok()) status = CheckPinned(request);
  if (!status.ok()) return std::move(done)(std::move(status));

  const WireCaller caller(request.header());
  std::vector<AbortPut> puts;
  puts.reserve(static_cast<size_t>(request.puts_size()));
  for (const v1::AbortPut& put : request.puts()) {
    puts.push_back({.generation = Generation{put.generation()}, .handle = put.handle()});
    for (const v1::Part& part : put.pinned()) puts.back().pinned.push_back(FromProto(part));
    puts.back().key = put.key();
  }
  const absl::StatusOr<std::vector<absl::Status>> results = core_.AbortPuts(*caller, puts, now);
  v1::AbortPutsResponse& response = done.response();
  if (results.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    WriteStatuses(*results, response);
  }
  std::move(done)(results.status());
  Settle(now);
}

}  // namespace moonpool::master
