// CommitPuts, AbortPuts: how grants end. And spare grants, which come with a commit.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/error.h"
#include "common/rpc/merge_message.h"
#include "common/rpc/status_proto.h"
#include "master/handlers/handlers.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

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

std::vector<CommitPut> CommitsIn(const v1::CommitPutsRequest& request) {
  std::vector<CommitPut> puts(static_cast<size_t>(request.puts_size()));
  for (size_t i = 0; i < puts.size(); ++i) {
    const v1::CommitPut& put = request.puts(static_cast<int>(i));
    puts[i].generation = Generation{put.generation()};
    puts[i].handle = put.handle();
    puts[i].failed_replicas.assign(put.failed_replicas().begin(), put.failed_replicas().end());
    puts[i].key = put.key();
    puts[i].parent = put.parent();
  }
  return puts;
}

// True when one of them is pending.
bool WriteCommits(const v1::CommitPutsRequest& request, const std::vector<CommitOutcome>& outcomes,
                  v1::CommitPutsResponse& response) {
  bool is_pending = false;
  response.clear_results();
  response.clear_bound();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const CommitOutcome& outcome = outcomes[i];
    is_pending = is_pending || outcome.is_pending;
    StatusToProto(outcome.status, response.add_results());
    if (request.puts(static_cast<int>(i)).key().empty()) continue;
    v1::BoundPut* bound = response.add_bound();
    if (outcome.status.ok()) bound->set_handle(outcome.handle);
    bound->set_existing_generation(outcome.existing_generation.value);
  }
  return is_pending;
}

// A key that was taken counts like one that StartPuts refuses.
void CountRefusals(const v1::CommitPutsRequest& request, const v1::CommitPutsResponse& response,
                   HandlerCounts& counts) {
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::Status& status = response.results(i);
    const v1::ErrorReason reason = status.detail().reason();
    const bool is_refused =
        status.code() != 0 && reason != v1::GRANT_ABORTED && reason != v1::REPLICAS_UNMET;
    if (is_refused && !request.puts(i).key().empty()) counts.refused.Add(reason);
  }
}

// A key was taken, and nodes have still to forget what was written for it: until then the next
// master would take it from them, and the writer is not told that it is nowhere. When that takes
// longer than the caller has, he is told what is true now.
class WaitingCommit final : public Waiter {
 public:
  WaitingCommit(Core& core, HandlerCounts& counts, const v1::CommitPutsRequest& request,
                Done<v1::CommitPutsResponse> done)
      : core_(core), counts_(counts), request_(request), done_(std::move(done)) {}

  size_t key_count() const override { return static_cast<size_t>(request_.puts_size()); }

  Progress Retry(absl::Time now) override {
    const WireCaller caller(request_.header(), WireCaller::Touches::kIgnore);
    const absl::StatusOr<std::vector<CommitOutcome>> outcomes =
        core_.CommitPuts(*caller, CommitsIn(request_), now);
    if (outcomes.ok() && WriteCommits(request_, *outcomes, done_.response())) {
      return Progress::kOther;
    }
    Answer(outcomes.status());
    return Progress::kDone;
  }
  void Expire(absl::Time) override { Answer(absl::OkStatus()); }
  void Fail(const absl::Status& status, absl::Time) override { std::move(done_)(status); }

 private:
  void Answer(const absl::Status& status) {
    CountRefusals(request_, done_.response(), counts_);
    std::move(done_)(status);
  }

  Core& core_;
  HandlerCounts& counts_;
  const v1::CommitPutsRequest request_;
  Done<v1::CommitPutsResponse> done_;
};

template <typename Response>
void WriteStatuses(const std::vector<absl::Status>& statuses, Response& response) {
  for (const absl::Status& status : statuses) {
    StatusToProto(status, response.add_results());
  }
}

}  // namespace

CallId Handlers::CommitPuts(const v1::CommitPutsRequest& request, absl::Time now,
                            Done<v1::CommitPutsResponse> done) {
  absl::Status status = Admit(request.header(), request.puts_size());
  if (status.ok()) status = CheckCommitPuts(request);
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return {};
  }
  const WireCaller caller(request.header());
  const absl::StatusOr<std::vector<CommitOutcome>> outcomes =
      core_.CommitPuts(*caller, CommitsIn(request), now);
  v1::CommitPutsResponse& response = done.response();
  bool is_pending = false;
  if (outcomes.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    is_pending = WriteCommits(request, *outcomes, response);
    GiveSpares(request, *caller, now, response);
  }
  CallId call;
  if (is_pending && !waiters_.full()) {
    auto waiter = std::make_unique<WaitingCommit>(core_, counts_, request, std::move(done));
    call =
        waiters_.Add(std::move(waiter), Waiter::Progress::kOther, AnswerBy(request.header(), now));
  } else {
    CountRefusals(request, response, counts_);
    std::move(done)(outcomes.status());
  }
  Settle(now);
  return call;
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
  std::string bytes;
  {
    WireWriter out(bytes);
    PlaceWriter places(core_, out);
    for (const Grant& grant : core_.GrantSpares(caller, wish, now)) {
      places.Write(v1::CommitPutsResponse::kSparesFieldNumber, grant, absl::ZeroDuration());
    }
    places.WriteNodes(v1::CommitPutsResponse::kNodesFieldNumber);
  }
  MP_CHECK(MergeMessage(bytes, response), "spares that nobody can read");
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
