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

CommitPut CommitIn(const v1::CommitPut& put) {
  return CommitPut{.generation = Generation{put.generation()},
                   .handle = put.handle(),
                   .failed_replicas = {put.failed_replicas().begin(), put.failed_replicas().end()},
                   .key = put.key(),
                   .parent = put.parent()};
}

// A put that named a key and has no last word yet; by its places in request and response.
struct PendingCommit {
  int put = 0;
  int bound = 0;
};

void WriteBound(const CommitOutcome& outcome, v1::BoundPut* bound) {
  bound->Clear();
  if (outcome.status.ok()) bound->set_handle(outcome.handle);
  bound->set_existing_generation(outcome.existing_generation.value);
}

std::vector<PendingCommit> WriteCommits(const v1::CommitPutsRequest& request,
                                        const std::vector<CommitOutcome>& outcomes,
                                        v1::CommitPutsResponse& response) {
  std::vector<PendingCommit> pending;
  for (int i = 0; i < request.puts_size(); ++i) {
    const CommitOutcome& outcome = outcomes[static_cast<size_t>(i)];
    StatusToProto(outcome.status, response.add_results());
    if (request.puts(i).key().empty()) continue;
    WriteBound(outcome, response.add_bound());
    if (outcome.is_pending) pending.push_back({.put = i, .bound = response.bound_size() - 1});
  }
  return pending;
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
                std::vector<PendingCommit> pending, Done<v1::CommitPutsResponse> done)
      : core_(core),
        counts_(counts),
        request_(request),
        pending_(std::move(pending)),
        done_(std::move(done)) {}

  size_t key_count() const override { return static_cast<size_t>(request_.puts_size()); }

  // Those alone that have no last word: of the others it has been said.
  Progress Retry(absl::Time now) override {
    const WireCaller caller(request_.header(), WireCaller::Touches::kIgnore);
    std::vector<CommitPut> puts;
    for (const PendingCommit& commit : pending_) {
      puts.push_back(CommitIn(request_.puts(commit.put)));
    }
    const absl::StatusOr<std::vector<CommitOutcome>> outcomes =
        core_.CommitPuts(*caller, puts, now);
    if (outcomes.ok() && !Write(*outcomes)) return Progress::kOther;
    Answer(outcomes.status());
    return Progress::kDone;
  }
  void Expire(absl::Time) override { Answer(absl::OkStatus()); }
  void Fail(const absl::Status& status, absl::Time) override { std::move(done_)(status); }

 private:
  // True: all have their last word.
  bool Write(const std::vector<CommitOutcome>& outcomes) {
    v1::CommitPutsResponse& response = done_.response();
    std::vector<PendingCommit> still;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      v1::Status* const status = response.mutable_results(pending_[i].put);
      status->Clear();
      StatusToProto(outcomes[i].status, status);
      WriteBound(outcomes[i], response.mutable_bound(pending_[i].bound));
      if (outcomes[i].is_pending) still.push_back(pending_[i]);
    }
    pending_ = std::move(still);
    return pending_.empty();
  }
  void Answer(const absl::Status& status) {
    CountRefusals(request_, done_.response(), counts_);
    std::move(done_)(status);
  }

  Core& core_;
  HandlerCounts& counts_;
  const v1::CommitPutsRequest request_;
  std::vector<PendingCommit> pending_;
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
  std::vector<CommitPut> puts;
  puts.reserve(static_cast<size_t>(request.puts_size()));
  for (const v1::CommitPut& put : request.puts()) puts.push_back(CommitIn(put));
  const absl::StatusOr<std::vector<CommitOutcome>> outcomes = core_.CommitPuts(*caller, puts, now);
  v1::CommitPutsResponse& response = done.response();
  std::vector<PendingCommit> pending;
  if (outcomes.ok()) {
    SetHeader(core_.term(), response.mutable_header());
    pending = WriteCommits(request, *outcomes, response);
    GiveSpares(request, *caller, now, response);
  }
  CallId call;
  if (!pending.empty() && !waiters_.full()) {
    auto waiter = std::make_unique<WaitingCommit>(core_, counts_, request, std::move(pending),
                                                  std::move(done));
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
