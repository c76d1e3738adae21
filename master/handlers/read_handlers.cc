// Locate, MatchPrefix, Exists.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "master/handlers/handlers.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

void CountFound(const Location& location, HandlerCounts& counts) {
  ++counts.hits;
  if (location.lease > absl::ZeroDuration()) ++counts.leases;
}

absl::Status TryLocate(Core& core, HandlerCounts& counts, const v1::LocateRequest& request,
                       WireCaller::Touches touches, absl::Duration elapsed, absl::Time now,
                       v1::LocateResponse& response) {
  const WireCaller caller(request.header(), touches);
  const KeyViews keys = ViewsOf(request.keys());
  ASSIGN_OR_RETURN(
      const std::vector<LocateOutcome> outcomes,
      core.Locate({.caller = *caller, .keys = keys, .lease = FromWireMs(request.lease_ms())}, now));
  SetHeader(core.term(), response.mutable_header());
  response.mutable_results()->Reserve(static_cast<int>(outcomes.size()));
  PlaceWriter places(core);
  for (const LocateOutcome& outcome : outcomes) {
    v1::LocateResult* result = response.add_results();
    if (outcome.status.ok()) {
      CountFound(outcome.location, counts);
      places.Write(outcome.location, elapsed, result->mutable_location());
    } else {
      StatusToProto(outcome.status, result->mutable_status());
      counts.misses.Add(result->status().detail().reason());
    }
  }
  places.WriteNodes(response.mutable_nodes());
  return absl::OkStatus();
}

// Of the keys at `candidates`, those that somebody is writing now.
std::vector<int> BeingWritten(Core& core, const v1::LocateRequest& request,
                              const std::vector<int>& candidates, WireCaller::Touches touches,
                              absl::Time now) {
  const WireCaller caller(request.header(), touches);
  KeyViews keys;
  for (const int index : candidates) keys.push_back(request.keys(index));
  const absl::StatusOr<std::vector<absl::Status>> exists = core.Exists(*caller, keys, now);
  std::vector<int> pending;
  if (!exists.ok()) return pending;  // Locate says the same
  for (size_t i = 0; i < exists->size(); ++i) {
    if (ReasonOf((*exists)[i]) == ErrorReason::kBeingWritten) pending.push_back(candidates[i]);
  }
  return pending;
}

// Waits until none of its keys is being written, and only then locates: every key once.
class WaitingLocate final : public Waiter {
 public:
  WaitingLocate(Core& core, HandlerCounts& counts, const v1::LocateRequest& request,
                std::vector<int> pending, absl::Time now, Done<v1::LocateResponse> done)
      : core_(core),
        counts_(counts),
        request_(request),
        pending_(std::move(pending)),
        arrived_at_(now),
        done_(std::move(done)) {}

  size_t key_count() const override { return pending_.size(); }

  Progress Retry(absl::Time now) override {
    pending_ = BeingWritten(core_, request_, pending_, WireCaller::Touches::kIgnore, now);
    if (!pending_.empty()) return Progress::kOther;
    Expire(now);
    return Progress::kDone;
  }
  void Expire(absl::Time now) override {
    std::move(done_)(TryLocate(core_, counts_, request_, WireCaller::Touches::kIgnore,
                               now - arrived_at_, now, done_.response()));
  }
  void Fail(const absl::Status& status, absl::Time) override { std::move(done_)(status); }

 private:
  Core& core_;
  HandlerCounts& counts_;
  const v1::LocateRequest request_;
  std::vector<int> pending_;  // indexes of keys
  const absl::Time arrived_at_;
  Done<v1::LocateResponse> done_;
};

}  // namespace

CallId Handlers::Locate(const v1::LocateRequest& request, absl::Time now,
                        Done<v1::LocateResponse> done) {
  absl::Status status = Admit(request.header(), request.keys_size());
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  std::vector<int> pending;
  WireCaller::Touches touches = WireCaller::Touches::kApply;
  if (request.wait_for_writer()) {
    std::vector<int> all(static_cast<size_t>(request.keys_size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    pending = BeingWritten(core_, request, all, touches, now);
    touches = WireCaller::Touches::kIgnore;
  }
  CallId call;
  if (!pending.empty() && !waiters_.full()) {
    call = waiters_.Add(std::make_unique<WaitingLocate>(core_, counts_, request, std::move(pending),
                                                        now, std::move(done)),
                        Waiter::Progress::kOther, AnswerBy(request.header(), now));
  } else {
    v1::LocateResponse& response = done.response();
    status = TryLocate(core_, counts_, request, touches, absl::ZeroDuration(), now, response);
    if (status.ok()) {
      if (!pending.empty()) ++counts_.waits_refused;
      for (const int index : pending) {
        StatusToProto(TooManyWaiters(), response.mutable_results(index)->mutable_status());
      }
    }
    std::move(done)(std::move(status));
  }
  Settle(now);
  return call;
}

void Handlers::MatchPrefix(const v1::MatchPrefixRequest& request, absl::Time now,
                           Done<v1::MatchPrefixResponse> done) {
  absl::Status status = Admit(request.header(), request.keys_size());
  if (!status.ok()) return std::move(done)(std::move(status));

  const WireCaller caller(request.header());
  const KeyViews keys = ViewsOf(request.keys());
  const absl::StatusOr<MatchPrefixResult> result = core_.MatchPrefix(
      {.caller = *caller, .keys = keys, .lease = FromWireMs(request.lease_ms())}, now);
  v1::MatchPrefixResponse& response = done.response();
  if (result.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    PlaceWriter places(core_);
    response.mutable_locations()->Reserve(static_cast<int>(result->locations.size()));
    for (const Location& location : result->locations) {
      CountFound(location, counts_);
      places.Write(location, absl::ZeroDuration(), response.add_locations());
    }
    if (!result->miss.ok()) {
      StatusToProto(result->miss, response.mutable_miss());
      counts_.misses.Add(response.miss().detail().reason());
    }
    places.WriteNodes(response.mutable_nodes());
  }
  std::move(done)(result.status());
  Settle(now);
}

void Handlers::Exists(const v1::ExistsRequest& request, absl::Time now,
                      Done<v1::ExistsResponse> done) {
  absl::Status status = Admit(request.header(), request.keys_size());
  if (!status.ok()) return std::move(done)(std::move(status));

  const WireCaller caller(request.header());
  const KeyViews keys = ViewsOf(request.keys());
  const absl::StatusOr<std::vector<absl::Status>> results = core_.Exists(*caller, keys, now);
  v1::ExistsResponse& response = done.response();
  if (results.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    for (const absl::Status& result : *results) StatusToProto(result, response.add_results());
  }
  std::move(done)(results.status());
  Settle(now);
}

}  // namespace moonpool::master
