#include "master/meta/etcd_meta_store.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/check.h"
#include "common/error.h"
#include "common/random.h"
#include "common/steady_cond_var.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;

constexpr int64_t kRecordsPerPage = 256;
constexpr absl::Duration kCallTimeout = absl::Seconds(2);
constexpr absl::Duration kRetryMin = absl::Milliseconds(20);
constexpr absl::Duration kRetryMax = absl::Seconds(1);

// Whether the request may have been carried out, or may be when it is asked again.
bool IsOpen(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kCancelled || code == StatusCode::kInternal;
}

absl::Status Superseded() {
  return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                   "this master's reign is over, etcd takes no more writes of it",
                   {.hint = "ask the master that leads now"});
}

absl::Status NobodyWaits() {
  return MakeError(StatusCode::kCancelled, ErrorReason::kCancelledByCaller,
                   "nobody waits for etcd any more: the reign is over, or this master stops");
}

// Of one call to etcd: its answer, or that nobody waits for it; whichever comes first.
class Outcome {
 public:
  void Set(absl::StatusOr<EtcdAnswer> answer) {
    absl::MutexLock lock(&mutex_);
    if (!answer_.has_value()) answer_ = std::move(answer);
  }
  absl::StatusOr<EtcdAnswer> Await() {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [this]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answer_.has_value(); };
    mutex_.Await(absl::Condition(&is_there));
    return *std::move(answer_);
  }

 private:
  absl::Mutex mutex_;
  std::optional<absl::StatusOr<EtcdAnswer>> answer_ ABSL_GUARDED_BY(mutex_);
};

size_t BytesOf(const MetaBatch& batch) {
  size_t bytes = 0;
  for (const MetaChange& change : batch) {
    bytes += change.key.size() + (change.value.has_value() ? change.value->size() : 0);
  }
  return bytes;
}

absl::Status CheckSize(const MetaBatch& batch) {
  // Counts a key that is changed twice twice: still far from what masters write at once.
  if (batch.size() > EtcdMetaStore::kBatchKeysMax) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge,
                     absl::StrCat(batch.size(),
                                  " changes are too many for one transaction of "
                                  "etcd; at most ",
                                  EtcdMetaStore::kBatchKeysMax),
                     {.hint = "write less at once"});
  }
  if (BytesOf(batch) > EtcdMetaStore::kBatchBytesMax) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kValueTooLarge,
                     absl::StrCat(BytesOf(batch),
                                  " bytes are too many for one transaction of "
                                  "etcd; at most ",
                                  EtcdMetaStore::kBatchBytesMax),
                     {.hint = "write less at once"});
  }
  return absl::OkStatus();
}

}  // namespace

EtcdMetaStore::EtcdMetaStore(EtcdMetaStoreOptions options, Etcd& etcd, const Clock& clock)
    : options_(std::move(options)), etcd_(etcd), clock_(clock), nonce_(EntropySeed()) {
  MP_CHECK(options_.reign != Reign{}, "a store of no reign");
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "meta");
    Run();
  });
}

EtcdMetaStore::~EtcdMetaStore() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<EtcdAnswer> EtcdMetaStore::Ask(EtcdRequest request, absl::Time deadline) {
  const absl::Duration left = deadline - clock_.Now();
  // Shared: etcd may answer when nobody waits any more.
  const auto outcome = std::make_shared<Outcome>();
  etcd_.Call(std::move(request), std::clamp(left, absl::ZeroDuration(), kCallTimeout),
             [outcome](absl::StatusOr<EtcdAnswer> answer) { outcome->Set(std::move(answer)); });
  const CancelCallback on_cancel =
      options_.cancel.OnCancel([outcome] { outcome->Set(NobodyWaits()); });
  return outcome->Await();  // it comes within the timeout
}

void EtcdMetaStore::WaitToRetry(int attempt, absl::Time deadline) const {
  const absl::Duration backoff =
      std::min(kRetryMax, kRetryMin * (int64_t{1} << std::min(attempt, 10)));
  absl::Mutex mutex;
  SteadyCondVar cancels;
  bool is_cancelled = false;
  const CancelCallback on_cancel = options_.cancel.OnCancel([&] {
    absl::MutexLock lock(&mutex);
    is_cancelled = true;
    cancels.Signal();
  });
  absl::MutexLock lock(&mutex);
  cancels.Await(&mutex, std::clamp(deadline - clock_.Now(), absl::ZeroDuration(), backoff),
                [&] { return is_cancelled; });
}

// --- Reading.

absl::StatusOr<std::vector<MetaRecord>> EtcdMetaStore::Load(absl::Time deadline) {
  const std::string start = RecordKey("");
  const EtcdGet first = {.key = start, .range_end = EtcdPrefixEnd(start), .limit = kRecordsPerPage};
  EtcdGet page = first;
  std::vector<MetaRecord> records;
  for (int failures = 0;;) {
    auto answer = Ask(page, deadline);
    const auto* range = answer.ok() ? std::get_if<EtcdRange>(&*answer) : nullptr;
    if (range == nullptr) {
      const bool is_compacted = answer.status().code() == StatusCode::kOutOfRange;
      if (!answer.ok() && !is_compacted && !IsOpen(answer.status().code())) return answer.status();
      if (options_.cancel.cancelled()) return NobodyWaits();
      if (clock_.Now() >= deadline) return Annotate(answer.status(), "read of the durable state");
      if (is_compacted) {  // the rest is no longer to be had at the revision of the first page
        page = first;
        records.clear();
      }
      WaitToRetry(failures++, deadline);
      continue;
    }
    for (const EtcdKeyValue& record : range->records) {
      records.push_back({.key = record.key.substr(start.size()), .value = record.value});
    }
    if (!range->has_more) return records;
    page.key = range->records.back().key + '\0';
    page.revision = range->revision;
  }
}

// --- Writing.

void EtcdMetaStore::Write(MetaBatch batch, WriteDone done) {
  absl::Status refusal = CheckSize(batch);
  if (refusal.ok()) {
    absl::MutexLock lock(&mutex_);
    if (is_stale_) {
      refusal = Superseded();
    } else if (under_way_ >= options_.writes_max) {
      refusal = MakeError(StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                          absl::StrCat(under_way_, " writes of the durable state are under way"),
                          {.hint = "etcd is slow or away; try again later"});
    } else {
      ++under_way_;
      queue_.push_back({.batch = std::move(batch),
                        .done = std::move(done),
                        .deadline = clock_.Now() + options_.write_timeout});
      return;
    }
  }
  std::move(done)(std::move(refusal));
}

void EtcdMetaStore::Run() {
  while (true) {
    Group group = TakeGroup();
    if (group.empty()) return;
    const absl::Status status = WriteGroup(group);
    {
      absl::MutexLock lock(&mutex_);
      under_way_ -= group.size();
      if (ReasonOf(status) == ErrorReason::kStaleTerm) is_stale_ = true;
    }
    for (Pending& write : group) std::move(write.done)(status);
  }
}

EtcdMetaStore::Group EtcdMetaStore::TakeGroup() {
  absl::MutexLock lock(&mutex_);
  const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || is_stopping_;
  };
  mutex_.Await(absl::Condition(&is_due));
  Group group;
  size_t keys = 0;
  size_t bytes = 0;
  while (!queue_.empty()) {
    keys += queue_.front().batch.size();
    bytes += BytesOf(queue_.front().batch);
    if (!group.empty() && (keys > kBatchKeysMax || bytes > kBatchBytesMax)) break;
    group.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return group;
}

EtcdTxn EtcdMetaStore::MakeTxn(const std::vector<EtcdOp>& changes, const std::string& tag) const {
  EtcdTxn txn = {.compares = {EtcdCompare::CreatedAt(leader_key(), options_.reign.value),
                              EtcdCompare::ChangedAt(writer_key(), writer_revision_)},
                 .success = changes,
                 .failure = {EtcdGet{.key = leader_key()}, EtcdGet{.key = writer_key()}}};
  txn.success.push_back(EtcdPut{.key = writer_key(), .value = tag});
  return txn;
}

absl::Status EtcdMetaStore::WriteGroup(const Group& group) {
  const absl::Time deadline = group.front().deadline;  // those behind it have a little longer
  const std::string tag =
      absl::StrCat(options_.reign.value, ".", absl::Hex(nonce_), ".", ++groups_);
  // etcd takes no two changes of a key in one transaction; the last one holds.
  std::map<std::string, const MetaChange*> last;
  for (const Pending& write : group) {
    for (const MetaChange& change : write.batch) last[change.key] = &change;
  }
  std::vector<EtcdOp> changes;
  for (const auto& [key, change] : last) {
    if (change->value.has_value()) {
      changes.push_back(EtcdPut{.key = RecordKey(key), .value = *change->value});
    } else {
      changes.push_back(EtcdDelete{RecordKey(key)});
    }
  }
  bool may_be_written = false;
  absl::Status failure = MakeError(StatusCode::kUnavailable, ErrorReason::kDeadline,
                                   "etcd had no time for this write of the durable state");
  for (int attempt = 0; clock_.Now() < deadline; ++attempt) {
    if (options_.cancel.cancelled()) return NobodyWaits();
    const auto answer = Ask(MakeTxn(changes, tag), deadline);
    if (const auto* txn = answer.ok() ? std::get_if<EtcdTxnResult>(&*answer) : nullptr) {
      if (txn->succeeded) {
        writer_revision_ = txn->revision;
        return absl::OkStatus();
      }
      if (auto verdict = Judge(*txn, tag, may_be_written)) return *verdict;
      // The first write of a store, or the one behind one that was given up: now it is known on top
      // of what it goes.
      if (attempt == 0) continue;
    } else {
      failure = Annotate(answer.status(), "write of the durable state");
      if (!IsOpen(answer.status().code())) return failure;
      may_be_written = true;
    }
    WaitToRetry(attempt, deadline);
  }
  return failure;
}

std::optional<absl::Status> EtcdMetaStore::Judge(const EtcdTxnResult& found, const std::string& tag,
                                                 bool may_be_written) {
  if (found.ranges.size() != 2) {
    return MakeError(StatusCode::kInternal, ErrorReason::kBadFrame,
                     "etcd has not answered for both keys of a write");
  }
  const std::vector<EtcdKeyValue>& leader = found.ranges[0].records;
  const std::vector<EtcdKeyValue>& writer = found.ranges[1].records;
  const int64_t revision = writer.empty() ? 0 : writer[0].mod_revision;
  const bool is_written = !writer.empty() && writer[0].value == tag;
  const bool is_unchanged = revision == writer_revision_;
  if (is_written) {  // by an attempt whose answer was lost
    writer_revision_ = revision;
    return absl::OkStatus();
  }
  if (!leader.empty() && leader[0].create_revision == options_.reign.value) {
    writer_revision_ = revision;
    return std::nullopt;
  }
  if (!may_be_written || is_unchanged) return Superseded();
  return MakeError(StatusCode::kUnavailable, ErrorReason::kStaleTerm,
                   "this master's reign is over, and whether etcd has taken its last write before "
                   "is not known",
                   {.hint = "ask the master that leads now"});
}

}  // namespace moonpool::master
