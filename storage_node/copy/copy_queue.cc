#include "storage_node/copy/copy_queue.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::storage_node {
namespace {

absl::Status Cancelled() {
  return MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller,
                   "the master has ended the copy");
}

}  // namespace

absl::Status CopyQueue::Add(uint64_t command_id, CopyOrder order, absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [id, entry] : jobs_) {
      if (entry.is_forgotten || entry.order != order) continue;
      entry.command_id = command_id;
      return absl::OkStatus();
    }
    if (jobs_.size() + results_.size() >= jobs_max_) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       absl::StrCat("this node has ", jobs_max_, " copies to make already"),
                       {.hint = "order it again when some are done"});
    }
    const uint64_t id = ++last_job_;
    Entry& entry = jobs_[id];
    entry.command_id = command_id;
    entry.order = std::move(order);
    entry.deadline = deadline;
    waiting_.push_back(id);
  }
  if (on_queued_) on_queued_();
  return absl::OkStatus();
}

// Those that wait are done at once; a worker finishes its own when it sees the token.
template <typename Predicate>
void CopyQueue::CancelIf(const Predicate& is_meant) {
  bool has_ended_any = false;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [id, entry] : jobs_) {
      if (entry.cancel.has_value() && is_meant(entry)) entry.cancel->Cancel();
    }
    std::erase_if(waiting_, [&](uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto job = jobs_.find(id);
      if (!is_meant(job->second)) return false;
      results_.push_back({job->second.command_id, Cancelled()});
      jobs_.erase(job);
      return has_ended_any = true;
    });
  }
  if (has_ended_any && on_result_) on_result_();
}

void CopyQueue::Cancel(absl::Span<const Generation> claims) {
  absl::flat_hash_set<Generation> pending;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, entry] : jobs_) pending.insert(entry.order.claim);
  }
  if (pending.empty()) return;  // as nearly always
  absl::flat_hash_set<Generation> ended;
  for (const Generation claim : claims) {
    if (pending.contains(claim)) ended.insert(claim);
  }
  if (ended.empty()) return;
  CancelIf([&](const Entry& entry) { return ended.contains(entry.order.claim); });
}

void CopyQueue::CancelBefore(Term term) {
  CancelIf([&](const Entry& entry) { return entry.order.claim.term() < term; });
}

void CopyQueue::EndSession() {
  absl::MutexLock lock(&mutex_);
  for (const uint64_t id : waiting_) jobs_.erase(id);
  waiting_.clear();
  results_.clear();
  for (auto& [id, entry] : jobs_) {
    entry.is_forgotten = true;
    entry.cancel->Cancel();
  }
}

std::vector<CopyResult> CopyQueue::TakeResults() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(results_, {});
}

bool CopyQueue::has_results() const {
  absl::MutexLock lock(&mutex_);
  return !results_.empty();
}

std::optional<CopyJob> CopyQueue::Take() {
  absl::MutexLock lock(&mutex_);
  if (waiting_.empty()) return std::nullopt;
  const uint64_t id = waiting_.front();
  waiting_.pop_front();
  Entry& entry = jobs_.at(id);
  entry.cancel.emplace();
  return CopyJob{.id = id,
                 .order = entry.order,
                 .context = {.deadline = entry.deadline, .cancel = entry.cancel->token()}};
}

bool CopyQueue::has_waiting() const {
  absl::MutexLock lock(&mutex_);
  return !waiting_.empty();
}

void CopyQueue::Finish(uint64_t job, absl::Status status) {
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = jobs_.find(job);
    const bool is_awaited = !entry->second.is_forgotten;
    if (is_awaited) results_.push_back({entry->second.command_id, std::move(status)});
    jobs_.erase(entry);
    if (!is_awaited) return;
  }
  if (on_result_) on_result_();
}

}  // namespace moonpool::storage_node
