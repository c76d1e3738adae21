// StartPuts.
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

void WriteOutcome(const PutOutcome& outcome, absl::Duration elapsed, PlaceWriter& places,
                  v1::PutResult* out) {
  if (!outcome.status.ok()) StatusToProto(outcome.status, out->mutable_status());
  if (outcome.existing_generation.value != 0) {
    out->set_existing_generation(outcome.existing_generation.value);
  }
  if (outcome.grant.has_value()) {
    places.Write(*outcome.grant, elapsed, out->mutable_grant());
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

}  // namespace moonpool::master
