// OpenNamespace, Remove, ListObjects.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/names.h"
#include "common/rpc/status_proto.h"
#include "master/handlers/handlers.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

constexpr uint32_t kMaxPage = 10000;
constexpr size_t kMaxPageTokenBytes = 4096;

// Keys whose removal is no promise yet: holders have to confirm it, or the store has to keep it.
// The answer was written at once, but for those.
class WaitingRemove final : public Waiter {
 public:
  struct Promise {
    int index;
    RemoveTicket ticket;
    ChangeNumber saved_by;
  };

  WaitingRemove(const Core& core, const UnsavedChanges& unsaved, std::vector<Promise> promises,
                Done<v1::RemoveResponse> done)
      : core_(core),
        unsaved_(unsaved),
        promises_(std::move(promises)),
        unconfirmed_(promises_.size()),
        done_(std::move(done)) {}

  // Confirmed ones are taken from the end and the first that is not stops the look: one step for
  // each try, whatever the size of the batch.
  size_t key_count() const override { return 1; }

  Progress Retry(absl::Time) override {
    while (unconfirmed_ > 0 && core_.IsRemoveDone(promises_[unconfirmed_ - 1].ticket)) {
      --unconfirmed_;
    }
    if (unconfirmed_ > 0) return Progress::kOther;
    // Some may be done because a node was given up: the next master must not take it either.
    if (!saved_by_.has_value()) {
      saved_by_ = core_.strike_saved_by();
      for (const Promise& promise : promises_) {
        saved_by_ = std::max(*saved_by_, promise.saved_by);
      }
    }
    const std::optional<absl::Status> outcome = unsaved_.OutcomeOf(*saved_by_);
    if (!outcome.has_value()) return Progress::kOther;
    Answer([&](const Promise& promise) { return Unsaved(promise, *outcome); });
    return Progress::kDone;
  }
  void Expire(absl::Time) override {
    Answer([&](const Promise& promise) { return Late(promise); });
  }
  void Fail(const absl::Status& status, absl::Time) override { std::move(done_)(status); }

  // Answers now, with `status` for each key that is not confirmed.
  void AnswerUnconfirmed(const absl::Status& status) {
    Answer([&](const Promise& promise) { return Late(promise).ok() ? absl::OkStatus() : status; });
  }

 private:
  // Answers now; what is said of a promise replaces its result, unless that is OK.
  template <typename Say>
  void Answer(Say say) {
    for (const Promise& promise : promises_) {
      const absl::Status status = say(promise);
      if (!status.ok()) StatusToProto(status, done_.response().mutable_results(promise.index));
    }
    std::move(done_)(absl::OkStatus());
  }
  absl::Status Unsaved(const Promise& promise, const absl::Status& outcome) const {
    const ChangeNumber strike = saved_by_.value_or(core_.strike_saved_by());
    const ChangeNumber needed = std::max(promise.saved_by, strike);
    return unsaved_.IsSaved(needed) ? absl::OkStatus() : outcome;
  }
  absl::Status Late(const Promise& promise) const {
    if (!core_.IsRemoveDone(promise.ticket)) {
      return MakeError(
          absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
          "gone for readers, but not every holder has confirmed yet",
          {.hint = "repeat the call to learn when they have, since until then a restart of "
                   "the master undoes it; `moonpool forget NODE` if one will never come "
                   "back"});
    }
    return Unsaved(promise, SaveIsSlow());
  }

  const Core& core_;
  const UnsavedChanges& unsaved_;
  const std::vector<Promise> promises_;
  size_t unconfirmed_;  // of the front
  std::optional<ChangeNumber> saved_by_;
  Done<v1::RemoveResponse> done_;
};

void WriteEntry(const ObjectEntry& entry, v1::ObjectEntry* out) {
  out->set_key(entry.key);
  out->set_size_bytes(entry.size_bytes);
  out->set_generation(entry.generation.value);
  for (const std::string& node : entry.nodes) out->add_nodes(node);
  out->set_parts(entry.parts);
  out->set_replicas(entry.replicas);
  out->set_wished_replicas(entry.wished_replicas);
  out->set_children(entry.children);
  out->set_leased(entry.is_leased);
  out->set_parent(entry.parent);
  out->set_age_ms(ToWireMs(entry.age));
}

}  // namespace

CallId Handlers::OpenNamespace(const v1::OpenNamespaceRequest& request, absl::Time now,
                               Done<v1::OpenNamespaceResponse> done) {
  absl::Status status = Admit(request.header());
  if (status.ok()) status = CheckLabel("fingerprint", request.fingerprint());
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  absl::StatusOr<OpenedNamespace> opened =
      core_.OpenNamespace(request.header().namespace_(), request.fingerprint(), now);
  CallId call;
  if (!opened.ok()) {
    std::move(done)(opened.status());
  } else {
    v1::OpenNamespaceResponse& response = done.response();
    SetHeader(core_.term(), response.mutable_header());
    response.set_fingerprint(std::move(opened->fingerprint));
    call = AnswerWhenSaved(opened->saved_by, AnswerBy(request.header(), now), now, std::move(done));
  }
  Settle(now);
  return call;
}

CallId Handlers::Remove(const v1::RemoveRequest& request, absl::Time now,
                        Done<v1::RemoveResponse> done) {
  absl::Status status = Admit(request.header(), request.keys_size());
  if (status.ok() && unsaved_.full()) status = TooManyUnsaved();
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  const WireCaller caller(request.header());
  const KeyViews keys = ViewsOf(request.keys());
  const absl::StatusOr<std::vector<RemoveOutcome>> outcomes = core_.Remove(*caller, keys, now);
  CallId call;
  if (!outcomes.ok()) {
    std::move(done)(outcomes.status());
  } else {
    v1::RemoveResponse& response = done.response();
    SetHeader(core_.term(), response.mutable_header());
    std::vector<WaitingRemove::Promise> promises;
    for (const RemoveOutcome& outcome : *outcomes) {
      const bool is_promise = outcome.status.ok() || absl::IsNotFound(outcome.status);
      if (is_promise && !(outcome.ticket.value == 0 &&
                          unsaved_.IsSaved(std::max(outcome.saved_by, core_.strike_saved_by())))) {
        promises.push_back({response.results_size(), outcome.ticket, outcome.saved_by});
      }
      StatusToProto(outcome.status, response.add_results());
    }
    auto waiter =
        std::make_unique<WaitingRemove>(core_, unsaved_, std::move(promises), std::move(done));
    const Waiter::Progress progress = waiter->Retry(now);
    if (progress == Waiter::Progress::kDone) {
      // Nothing to wait for.
    } else if (waiters_.full()) {
      ++counts_.waits_refused;
      waiter->AnswerUnconfirmed(TooManyWaiters());
    } else {
      call = waiters_.Add(std::move(waiter), progress, AnswerBy(request.header(), now));
    }
  }
  Settle(now);
  return call;
}

void Handlers::ListObjects(const v1::ListObjectsRequest& request, absl::Time now,
                           Done<v1::ListObjectsResponse> done) {
  absl::Status status = Admit(request.header());
  if (status.ok()) status = CheckLength("prefix", request.prefix(), kMaxKeyBytes);
  if (status.ok()) status = CheckLength("page_token", request.page_token(), kMaxPageTokenBytes);
  if (status.ok() && request.limit() > kMaxPage) status = BadArgument("limit is above 10000");
  if (!status.ok()) return std::move(done)(std::move(status));

  const WireCaller caller(request.header());
  absl::StatusOr<ListObjectsResult> result = core_.ListObjects({.caller = *caller,
                                                                .prefix = request.prefix(),
                                                                .page_token = request.page_token(),
                                                                .limit = request.limit()},
                                                               now);
  v1::ListObjectsResponse& response = done.response();
  if (result.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    for (const ObjectEntry& entry : result->objects) WriteEntry(entry, response.add_objects());
    response.set_next_page_token(std::move(result->next_page_token));
  }
  std::move(done)(result.status());
}

}  // namespace moonpool::master
