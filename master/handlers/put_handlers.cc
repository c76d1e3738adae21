// StartPuts.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "master/handlers/handlers.h"
#include "master/handlers/request_views.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

struct PutAttempt {
  std::vector<PutOutcome> outcomes;
  std::vector<size_t> waiting;  // those of them that may fare better later
  Waiter::Progress progress = Waiter::Progress::kDone;
};

// A grant of one part takes about so many bytes.
constexpr size_t kGrantBytes = 64;

void WriteOutcome(const PutOutcome& outcome, absl::Duration elapsed, PlaceWriter& places,
                  WireWriter& out) {
  using Wire = v1::PutResult;
  WriteStatus(Wire::kStatusFieldNumber, outcome.status, out);
  if (outcome.grant.has_value()) places.Write(Wire::kGrantFieldNumber, *outcome.grant, elapsed);
  out.Fixed64(Wire::kExistingGenerationFieldNumber, outcome.existing_generation.value);
}

// `elapsed`: since the request came.
void WriteStarted(const Core& core, const std::vector<PutOutcome>& outcomes, absl::Duration elapsed,
                  std::string& response) {
  using Wire = v1::StartPutsResponse;
  WireWriter out(response, outcomes.size() * kGrantBytes);
  WriteHeader(Wire::kHeaderFieldNumber, core.term(), out);
  PlaceWriter places(core, out);
  for (const PutOutcome& outcome : outcomes) {
    out.Message(Wire::kResultsFieldNumber, [&] { WriteOutcome(outcome, elapsed, places, out); });
  }
  places.WriteNodes(Wire::kNodesFieldNumber);
}

absl::StatusOr<PutAttempt> TryPuts(Core& core, const StartPutsView& request, bool may_wait,
                                   WireCaller::Touches touches, absl::Time now) {
  const WireCaller caller(request.header(), touches);
  PutAttempt attempt;
  ASSIGN_OR_RETURN(attempt.outcomes,
                   core.StartPuts({.caller = *caller,
                                   .request_id = request.request_id(),
                                   .puts = request.puts(),
                                   .replicas = request.replicas(),
                                   .min_replicas = request.min_replicas(),
                                   .wait_for_space = may_wait && request.wait_for_space(),
                                   .wait_for_writer = may_wait && request.wait_for_writer()},
                                  now));
  for (size_t i = 0; i < attempt.outcomes.size(); ++i) {
    const Wait wait = attempt.outcomes[i].wait;
    if (wait == Wait::kNone) continue;
    attempt.waiting.push_back(i);
    const bool wants_space = wait == Wait::kSpace || attempt.progress == Waiter::Progress::kSpace;
    attempt.progress = wants_space ? Waiter::Progress::kSpace : Waiter::Progress::kOther;
  }
  return attempt;
}

// Gives back what an answer that nobody will get has granted.
void AbortGrants(Core& core, const v1::RequestHeader& header,
                 const std::vector<PutOutcome>& outcomes, absl::Time now) {
  std::vector<AbortPut> aborts;
  for (const PutOutcome& outcome : outcomes) {
    if (!outcome.grant.has_value()) continue;
    aborts.push_back({.generation = outcome.grant->generation, .handle = outcome.grant->handle});
  }
  if (aborts.empty()) return;
  const WireCaller caller(header, WireCaller::Touches::kIgnore);
  core.AbortPuts(*caller, aborts, now).IgnoreError();
}

void CountRefusals(const std::vector<PutOutcome>& outcomes, HandlerCounts& counts) {
  for (const PutOutcome& outcome : outcomes) {
    if (!outcome.grant.has_value()) counts.refused.Add(static_cast<int>(ReasonOf(outcome.status)));
  }
}

// Whether grants of the present term may be given: OK, or why not yet.
absl::Status TermOutcome(const Core& core, const UnsavedChanges& unsaved) {
  return unsaved.OutcomeOf(core.term_saved_by()).value_or(SaveIsSlow());
}

class WaitingPut final : public Waiter {
 public:
  // `outcomes`: of the attempt before it waits, if there was one.
  WaitingPut(Core& core, const UnsavedChanges& unsaved, HandlerCounts& counts,
             const Encoded<v1::StartPutsRequest>& request, std::vector<PutOutcome> outcomes,
             absl::Time now, Done<Encoded<v1::StartPutsResponse>> done)
      : core_(core),
        unsaved_(unsaved),
        counts_(counts),
        bytes_(request),
        outcomes_(std::move(outcomes)),
        arrived_at_(now),
        done_(std::move(done)) {}

  size_t key_count() const override { return request_.puts().size(); }

  Progress Retry(absl::Time now) override { return Try(/*may_wait=*/true, now); }
  void Expire(absl::Time now) override { Try(/*may_wait=*/false, now); }
  void Fail(const absl::Status& status, absl::Time now) override {
    AbortGrants(core_, request_.header(), outcomes_, now);
    std::move(done_)(status);
  }

 private:
  Progress Try(bool may_wait, absl::Time now) {
    if (const absl::Status term = TermOutcome(core_, unsaved_); !term.ok()) {
      if (may_wait && absl::IsDeadlineExceeded(term)) return Progress::kOther;
      Fail(term, now);
      return Progress::kDone;
    }
    absl::StatusOr<PutAttempt> attempt =
        TryPuts(core_, request_, may_wait, WireCaller::Touches::kIgnore, now);
    if (!attempt.ok()) {
      std::move(done_)(attempt.status());
      return Progress::kDone;
    }
    outcomes_ = std::move(attempt->outcomes);
    if (attempt->progress != Progress::kDone) return attempt->progress;
    CountRefusals(outcomes_, counts_);
    WriteStarted(core_, outcomes_, now - arrived_at_, done_.response().bytes);
    std::move(done_)(absl::OkStatus());
    return Progress::kDone;
  }

  Core& core_;
  const UnsavedChanges& unsaved_;
  HandlerCounts& counts_;
  const Encoded<v1::StartPutsRequest> bytes_;
  const StartPutsView request_{bytes_.bytes};
  std::vector<PutOutcome> outcomes_;  // of the last attempt: what it has granted
  const absl::Time arrived_at_;
  Done<Encoded<v1::StartPutsResponse>> done_;
};

absl::Status CheckStartPuts(const StartPutsView& request) {
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

bool Handlers::HasToQueue(const StartPutsView& request, absl::Time now) {
  if (!request.wait_for_space() || !waiters_.anyone_waits_for_space() || waiters_.full()) {
    return false;
  }
  // A put of what is there already needs no space and no turn.
  KeyViews keys;
  for (const PutKey& put : request.puts()) keys.push_back(put.key);
  const WireCaller caller(request.header(), WireCaller::Touches::kIgnore);
  const absl::StatusOr<std::vector<absl::Status>> exists = core_.Exists(*caller, keys, now);
  if (!exists.ok()) return false;
  return std::any_of(exists->begin(), exists->end(), [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kNotFound;
  });
}

CallId Handlers::StartPuts(const Encoded<v1::StartPutsRequest>& encoded, absl::Time now,
                           Done<Encoded<v1::StartPutsResponse>> done) {
  const StartPutsView request(encoded.bytes);
  absl::Status status = Admit(request, request.batch());
  if (status.ok()) {
    status = CheckStartPuts(request);
    if (!status.ok()) ++counts_.bad_requests;
  }
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  const auto wait = [&](Waiter::Progress progress, std::vector<PutOutcome> outcomes = {}) {
    auto waiter = std::make_unique<WaitingPut>(core_, unsaved_, counts_, encoded,
                                               std::move(outcomes), now, std::move(done));
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
  absl::StatusOr<PutAttempt> attempt =
      TryPuts(core_, request, /*may_wait=*/true, WireCaller::Touches::kApply, now);
  if (!attempt.ok()) {
    std::move(done)(attempt.status());
  } else if (attempt->progress == Waiter::Progress::kDone || waiters_.full()) {
    std::vector<PutOutcome>& outcomes = attempt->outcomes;
    for (const size_t index : attempt->waiting) outcomes[index].status = TooManyWaiters();
    if (!attempt->waiting.empty()) ++counts_.waits_refused;
    CountRefusals(outcomes, counts_);
    WriteStarted(core_, outcomes, absl::ZeroDuration(), done.response().bytes);
    std::move(done)(absl::OkStatus());
  } else {
    call = wait(attempt->progress, std::move(attempt->outcomes));
  }
  Settle(now);
  return call;
}

}  // namespace moonpool::master
