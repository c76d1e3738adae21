// Locate, MatchPrefix, Exists.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "master/handlers/handlers.h"
#include "master/handlers/request_views.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

void CountFound(const Location& location, HandlerCounts& counts) {
  ++counts.hits;
  if (location.lease > absl::ZeroDuration()) ++counts.leases;
}

// A location of one part takes about so many bytes.
constexpr size_t kLocationBytes = 64;

void CountOutcomes(const std::vector<LocateOutcome>& outcomes, HandlerCounts& counts) {
  for (const LocateOutcome& outcome : outcomes) {
    if (outcome.status.ok()) {
      CountFound(outcome.location, counts);
    } else {
      counts.misses.Add(static_cast<int>(ReasonOf(outcome.status)));
    }
  }
}

void WriteLocated(const Core& core, const std::vector<LocateOutcome>& outcomes,
                  absl::Duration elapsed, std::string& response) {
  using Wire = v1::LocateResponse;
  WireWriter out(response, outcomes.size() * kLocationBytes);
  WriteHeader(Wire::kHeaderFieldNumber, core.term(), out);
  PlaceWriter places(core, out);
  for (const LocateOutcome& outcome : outcomes) {
    out.Message(Wire::kResultsFieldNumber, [&] {
      WriteStatus(v1::LocateResult::kStatusFieldNumber, outcome.status, out);
      if (!outcome.status.ok()) return;
      places.Write(v1::LocateResult::kLocationFieldNumber, outcome.location, elapsed);
    });
  }
  places.WriteNodes(Wire::kNodesFieldNumber);
}

void WriteMatch(const Core& core, const MatchPrefixResult& result, std::string& response) {
  using Wire = v1::MatchPrefixResponse;
  WireWriter out(response, result.locations.size() * kLocationBytes);
  WriteHeader(Wire::kHeaderFieldNumber, core.term(), out);
  PlaceWriter places(core, out);
  for (const Location& location : result.locations) {
    places.Write(Wire::kLocationsFieldNumber, location, absl::ZeroDuration());
  }
  WriteStatus(Wire::kMissFieldNumber, result.miss, out);
  places.WriteNodes(Wire::kNodesFieldNumber);
}

absl::StatusOr<std::vector<LocateOutcome>> TryLocate(Core& core, HandlerCounts& counts,
                                                     const KeysRequest& request,
                                                     WireCaller::Touches touches, absl::Time now) {
  const WireCaller caller(request.header(), touches);
  auto outcomes =
      core.Locate({.caller = *caller, .keys = request.keys(), .lease = request.lease()}, now);
  if (outcomes.ok()) CountOutcomes(*outcomes, counts);
  return outcomes;
}

// Of the keys at `candidates`, those that somebody is writing now.
std::vector<size_t> BeingWritten(Core& core, const KeysRequest& request,
                                 const std::vector<size_t>& candidates, WireCaller::Touches touches,
                                 absl::Time now) {
  const WireCaller caller(request.header(), touches);
  KeyViews keys;
  for (const size_t index : candidates) keys.push_back(request.keys()[index]);
  const absl::StatusOr<std::vector<absl::Status>> exists = core.Exists(*caller, keys, now);
  std::vector<size_t> pending;
  if (!exists.ok()) return pending;  // Locate says the same
  for (size_t i = 0; i < exists->size(); ++i) {
    if (ReasonOf((*exists)[i]) == ErrorReason::kBeingWritten) pending.push_back(candidates[i]);
  }
  return pending;
}

// Waits until none of its keys is being written, and only then locates: every key once.
class WaitingLocate final : public Waiter {
 public:
  WaitingLocate(Core& core, HandlerCounts& counts, const Encoded<v1::LocateRequest>& request,
                std::vector<size_t> pending, absl::Time now, Done<Encoded<v1::LocateResponse>> done)
      : core_(core),
        counts_(counts),
        bytes_(request),
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
    const auto outcomes = TryLocate(core_, counts_, request_, WireCaller::Touches::kIgnore, now);
    if (outcomes.ok()) WriteLocated(core_, *outcomes, now - arrived_at_, done_.response().bytes);
    std::move(done_)(outcomes.status());
  }
  void Fail(const absl::Status& status, absl::Time) override { std::move(done_)(status); }

 private:
  Core& core_;
  HandlerCounts& counts_;
  const Encoded<v1::LocateRequest> bytes_;
  const KeysRequest request_{bytes_.bytes};
  std::vector<size_t> pending_;  // indexes of keys
  const absl::Time arrived_at_;
  Done<Encoded<v1::LocateResponse>> done_;
};

}  // namespace

CallId Handlers::Locate(const Encoded<v1::LocateRequest>& encoded, absl::Time now,
                        Done<Encoded<v1::LocateResponse>> done) {
  const KeysRequest request(encoded.bytes);
  absl::Status status = Admit(request, request.batch());
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  std::vector<size_t> pending;
  WireCaller::Touches touches = WireCaller::Touches::kApply;
  if (request.wait_for_writer()) {
    std::vector<size_t> all(request.keys().size());
    std::iota(all.begin(), all.end(), 0);
    pending = BeingWritten(core_, request, all, touches, now);
    touches = WireCaller::Touches::kIgnore;
  }
  CallId call;
  if (!pending.empty() && !waiters_.full()) {
    call = waiters_.Add(std::make_unique<WaitingLocate>(core_, counts_, encoded, std::move(pending),
                                                        now, std::move(done)),
                        Waiter::Progress::kOther, AnswerBy(request.header(), now));
  } else {
    auto outcomes = TryLocate(core_, counts_, request, touches, now);
    if (outcomes.ok()) {
      if (!pending.empty()) ++counts_.waits_refused;
      for (const size_t index : pending) (*outcomes)[index].status = TooManyWaiters();
      WriteLocated(core_, *outcomes, absl::ZeroDuration(), done.response().bytes);
    }
    std::move(done)(outcomes.status());
  }
  Settle(now);
  return call;
}

void Handlers::MatchPrefix(const Encoded<v1::MatchPrefixRequest>& encoded, absl::Time now,
                           Done<Encoded<v1::MatchPrefixResponse>> done) {
  const KeysRequest request(encoded.bytes);
  absl::Status status = Admit(request, request.batch());
  if (!status.ok()) return std::move(done)(std::move(status));

  const WireCaller caller(request.header());
  const absl::StatusOr<MatchPrefixResult> result =
      core_.MatchPrefix({.caller = *caller, .keys = request.keys(), .lease = request.lease()}, now);
  if (result.ok()) {
    for (const Location& location : result->locations) CountFound(location, counts_);
    if (!result->miss.ok()) counts_.misses.Add(static_cast<int>(ReasonOf(result->miss)));
    WriteMatch(core_, *result, done.response().bytes);
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
