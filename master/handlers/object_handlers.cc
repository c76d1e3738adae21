// OpenNamespace, Remove, ListObjects.
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

// Keys whose holders have not confirmed yet. The answer was written at once, but for those.
class WaitingRemove final : public Waiter {
 public:
  struct Pending {
    int index;
    RemoveTicket ticket;
  };

  WaitingRemove(const Core& core, v1::RemoveResponse response, std::vector<Pending> pending,
                Done<v1::RemoveResponse> done)
      : core_(core),
        response_(std::move(response)),
        pending_(std::move(pending)),
        done_(std::move(done)) {}

  // Confirmed ones are taken from the end and the first that is not stops the look: one step for
  // each try, whatever the size of the batch.
  size_t key_count() const override { return 1; }

  Progress Retry(absl::Time) override {
    while (!pending_.empty() && core_.IsRemoveDone(pending_.back().ticket)) pending_.pop_back();
    if (!pending_.empty()) return Progress::kOther;
    std::move(done_)(absl::OkStatus(), std::move(response_));
    return Progress::kDone;
  }
  void Expire(absl::Time) override {
    AnswerUnconfirmed(
        MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                  "gone for readers, but not every holder has confirmed yet",
                  {.hint = "repeat the call to learn when they have, since until then a restart of "
                           "the master undoes it; `moonpool forget NODE` if one will never come "
                           "back"}));
  }
  void Fail(const absl::Status& status, absl::Time) override { std::move(done_)(status, {}); }

  // Answers now, with `status` for each key that is not confirmed.
  void AnswerUnconfirmed(const absl::Status& status) {
    for (const Pending& pending : pending_) {
      if (core_.IsRemoveDone(pending.ticket)) continue;
      StatusToProto(status, response_.mutable_results(pending.index));
    }
    std::move(done_)(absl::OkStatus(), std::move(response_));
  }

 private:
  const Core& core_;
  v1::RemoveResponse response_;
  std::vector<Pending> pending_;
  Done<v1::RemoveResponse> done_;
};

void WriteEntry(const ObjectEntry& entry, v1::ObjectEntry* out) {
  out->set_key(entry.key);
  out->set_size_bytes(entry.size_bytes);
  out->set_generation(entry.generation.value);
  for (const std::string& node : entry.nodes) out->add_nodes(node);
  out->set_parts(entry.parts);
  out->set_replicas(entry.replicas);
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
    std::move(done)(std::move(status), {});
    return {};
  }
  absl::StatusOr<OpenedNamespace> opened =
      core_.OpenNamespace(request.header().namespace_(), request.fingerprint(), now);
  CallId call;
  if (!opened.ok()) {
    std::move(done)(opened.status(), {});
  } else {
    v1::OpenNamespaceResponse response;
    SetHeader(core_.term(), response.mutable_header());
    response.set_fingerprint(std::move(opened->fingerprint));
    auto answer = [response = std::move(response),
                   done = std::move(done)](absl::Status saved) mutable {
      std::move(done)(std::move(saved), std::move(response));
    };
    call =
        AnswerWhenSaved(opened->saved_by, AnswerBy(request.header(), now), now, std::move(answer));
  }
  Settle(now);
  return call;
}

CallId Handlers::Remove(const v1::RemoveRequest& request, absl::Time now,
                        Done<v1::RemoveResponse> done) {
  absl::Status status = Admit(request.header(), request.keys_size());
  if (!status.ok()) {
    std::move(done)(std::move(status), {});
    return {};
  }
  const WireCaller caller(request.header());
  const KeyViews keys = ViewsOf(request.keys());
  const absl::StatusOr<std::vector<RemoveOutcome>> outcomes = core_.Remove(*caller, keys, now);
  CallId call;
  if (!outcomes.ok()) {
    std::move(done)(outcomes.status(), {});
  } else {
    v1::RemoveResponse response;
    SetHeader(core_.term(), response.mutable_header());
    std::vector<WaitingRemove::Pending> pending;
    for (const RemoveOutcome& outcome : *outcomes) {
      if (outcome.ticket.value != 0) pending.push_back({response.results_size(), outcome.ticket});
      StatusToProto(outcome.status, response.add_results());
    }
    auto waiter = std::make_unique<WaitingRemove>(core_, std::move(response), std::move(pending),
                                                  std::move(done));
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
  if (!status.ok()) return std::move(done)(std::move(status), {});

  const WireCaller caller(request.header());
  absl::StatusOr<ListObjectsResult> result = core_.ListObjects({.caller = *caller,
                                                                .prefix = request.prefix(),
                                                                .page_token = request.page_token(),
                                                                .limit = request.limit()},
                                                               now);
  v1::ListObjectsResponse response;
  if (result.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    for (const ObjectEntry& entry : result->objects) WriteEntry(entry, response.add_objects());
    response.set_next_page_token(std::move(result->next_page_token));
  }
  std::move(done)(result.status(), std::move(response));
}

}  // namespace moonpool::master
