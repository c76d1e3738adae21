#include "tests/sim/sim_etcd.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::sim {
namespace {

using master::EtcdAnswer;
using master::EtcdCompare;

constexpr absl::Duration kNoticeAfter = absl::Milliseconds(5);
constexpr absl::Duration kLeaseSweep = absl::Milliseconds(500);
constexpr absl::Duration kWriteCall = absl::Seconds(2);
constexpr absl::Duration kWriteTimeout = absl::Seconds(10);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);
// Past most callers' time.
constexpr absl::Duration kLatest = absl::Seconds(4);

absl::Status Unreached() { return absl::UnavailableError("etcd did not answer"); }

}  // namespace

SimEtcd::SimEtcd(Scheduler& scheduler, Network& network, Random random)
    : scheduler_(scheduler), network_(network), random_(random) {
  SweepLeases();
}

void SimEtcd::Call(const std::string& host, master::EtcdRequest request, absl::Duration timeout,
                   Done done) {
  // The first of answer, broken connection and timeout.
  const auto left = std::make_shared<Done>(std::move(done));
  const Done end = [left](const absl::StatusOr<EtcdAnswer>& answer) {
    if (const Done first = std::exchange(*left, nullptr)) first(answer);
  };
  scheduler_.After(timeout, [end] { end(absl::DeadlineExceededError("etcd took too long")); });
  const Done answer = [this, host, end](const absl::StatusOr<EtcdAnswer>& result) {
    SendSoonOrLate([this, host, end, result] {
      if (network_.Send(kHost, host, 0, [end, result] { end(result); })) return;
      scheduler_.After(kNoticeAfter, [end] { end(Unreached()); });
    });
  };
  const auto send = [this, host, request = std::move(request), answer, end] {
    const bool is_sent =
        network_.Send(host, kHost, 0, [this, request, answer] { Arrive(request, answer); });
    if (!is_sent) scheduler_.After(kNoticeAfter, [end] { end(Unreached()); });
  };
  SendSoonOrLate(send);
  if (faults_.repeat > 0 && random_.Uniform() < faults_.repeat) {
    ++repeated_;
    scheduler_.After(kLatest * random_.Uniform(), send);
  }
}

void SimEtcd::SendSoonOrLate(const std::function<void()>& send) {
  if (faults_.late == 0 || random_.Uniform() >= faults_.late) return send();
  scheduler_.After(kLatest * random_.Uniform(), send);
}

void SimEtcd::Arrive(const master::EtcdRequest& request, const Done& answer) {
  if (!is_up_) return answer(Unreached());
  const auto* await = std::get_if<master::EtcdAwaitChange>(&request);
  if (await != nullptr && !etcd_.HasChanged(*await)) {
    waits_.push_back({.await = *await, .answer = answer});
    return;
  }
  answer(etcd_.Apply(request, scheduler_.Now()));
  WakeWaits();
}

void SimEtcd::WakeWaits() {
  const auto woken = std::stable_partition(waits_.begin(), waits_.end(), [this](const Wait& wait) {
    return !etcd_.HasChanged(wait.await);
  });
  const std::vector<Wait> due(woken, waits_.end());
  waits_.erase(woken, waits_.end());
  for (const Wait& wait : due) wait.answer(master::EtcdDone{});
}

void SimEtcd::SweepLeases() {
  if (is_up_) etcd_.ExpireLeases(scheduler_.Now());
  WakeWaits();
  scheduler_.After(kLeaseSweep, [this] { SweepLeases(); });
}

void SimEtcd::Stop() {
  is_up_ = false;
  for (const Wait& wait : std::exchange(waits_, {})) wait.answer(Unreached());
}

void SimEtcd::Start() {
  if (is_up_) return;
  is_up_ = true;
  etcd_.RenewLeases(scheduler_.Now());
}

// --- The meta store of a reign.

SimReignRecords::SimReignRecords(Scheduler& scheduler, SimEtcd& etcd, std::string host,
                                 master::Reign reign, Run run)
    : scheduler_(scheduler),
      etcd_(etcd),
      host_(std::move(host)),
      reign_(reign),
      run_(std::move(run)) {}

SimReignRecords::~SimReignRecords() {
  *is_alive_ = false;
  for (Pending& write : std::exchange(queue_, {})) std::move(write.done)(Unreached());
}

absl::StatusOr<std::vector<master::MetaRecord>> SimReignRecords::Load(absl::Time) {
  return absl::UnimplementedError("nothing blocks here");
}

void SimReignRecords::Write(master::MetaBatch batch, WriteDone done) {
  queue_.push_back({.batch = std::move(batch),
                    .done = std::move(done),
                    .deadline = scheduler_.Now() + kWriteTimeout,
                    .tag = absl::StrCat(reign_.value, ".", ++writes_)});
  if (queue_.size() == 1) Send();
}

void SimReignRecords::Send() {
  const Pending& write = queue_.front();
  const std::string prefix = SimEtcd::kPrefix;
  master::EtcdTxn txn = {
      .compares = {EtcdCompare::CreatedAt(prefix + "/leader", reign_.value),
                   EtcdCompare::ChangedAt(prefix + "/meta-writer", writer_revision_)},
      .failure = {master::EtcdGet{.key = prefix + "/leader"},
                  master::EtcdGet{.key = prefix + "/meta-writer"}}};
  std::map<std::string, const master::MetaChange*> last;
  for (const master::MetaChange& change : write.batch) last[change.key] = &change;
  for (const auto& [key, change] : last) {
    const std::string record = absl::StrCat(prefix, "/meta/", key);
    if (change->value.has_value()) {
      txn.success.push_back(master::EtcdPut{.key = record, .value = *change->value});
    } else {
      txn.success.push_back(master::EtcdDelete{record});
    }
  }
  txn.success.push_back(master::EtcdPut{.key = prefix + "/meta-writer", .value = write.tag});
  etcd_.Call(host_, std::move(txn), kWriteCall,
             [this, run = run_, alive = is_alive_](const absl::StatusOr<EtcdAnswer>& answer) {
               run([this, alive, answer] {
                 if (*alive) Take(answer);
               });
             });
}

void SimReignRecords::Take(const absl::StatusOr<EtcdAnswer>& answer) {
  const auto* txn = answer.ok() ? std::get_if<master::EtcdTxnResult>(&*answer) : nullptr;
  if (txn != nullptr && !txn->succeeded) return Judge(*txn);
  if (txn != nullptr) {
    writer_revision_ = txn->revision;
    return Finish(absl::OkStatus());
  }
  queue_.front().may_be_written = true;
  if (scheduler_.Now() >= queue_.front().deadline) return Finish(Unreached());
  scheduler_.After(kRetryAfter, [this, run = run_, alive = is_alive_] {
    run([this, alive] {
      if (*alive) Send();
    });
  });
}

void SimReignRecords::Judge(const master::EtcdTxnResult& found) {
  const std::vector<master::EtcdKeyValue>& leader = found.ranges[0].records;
  const std::vector<master::EtcdKeyValue>& writer = found.ranges[1].records;
  const int64_t revision = writer.empty() ? 0 : writer[0].mod_revision;
  const bool is_unchanged = revision == writer_revision_;
  if (!writer.empty() && writer[0].value == queue_.front().tag) {
    writer_revision_ = revision;
    return Finish(absl::OkStatus());
  }
  if (!leader.empty() && leader[0].create_revision == reign_.value) {
    writer_revision_ = revision;
    return Send();
  }
  if (!queue_.front().may_be_written || is_unchanged) {
    return Finish(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                            "the reign is over"));
  }
  Finish(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kStaleTerm,
                   "the reign is over, and the last write perhaps done"));
}

void SimReignRecords::Finish(const absl::Status& status) {
  WriteDone done = std::move(queue_.front().done);
  queue_.pop_front();
  // What `done` does may be the end of this store.
  const std::shared_ptr<bool> alive = is_alive_;
  const bool has_more = !queue_.empty();
  std::move(done)(status);
  if (*alive && has_more) Send();
}

}  // namespace moonpool::sim
