// The copies that the master has ordered and not been answered: between the link, which takes
// orders and sends results, and the workers, which carry them out (copy_worker.h).
//
//   RETURN_IF_ERROR(copies.Add(command_id, order, now + timeout));   // link
//   std::optional<CopyJob> job = copies.Take();                      // worker
//   copies.Finish(job->id, CopyPart(...));
//   for (const CopyResult& result : copies.TakeResults()) ...        // link
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/call_context.h"
#include "common/cancel.h"
#include "common/types.h"
#include "transport/channel.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

struct CopyOrder {
  // What is sealed here in the end, but for the payload's checksum, which its source knows.
  transport::SealRecord record;
  Generation claim;
  transport::PeerAddress source;
  Extent source_extent;
  bool operator==(const CopyOrder&) const = default;
};

struct CopyJob {
  uint64_t id = 0;  // of this queue
  CopyOrder order;
  CallContext context;
};

struct CopyResult {
  uint64_t command_id = 0;
  absl::Status status;
};

// Bounded: it holds at most `jobs_max` orders and results; the master counts on 256
// (kMostCopiesOfNode). Thread-safe; no call blocks.
class CopyQueue {
 public:
  explicit CopyQueue(size_t jobs_max = 256) : jobs_max_(jobs_max) {}

  // Called without a lock, on the thread that caused it; they must not block. Set before anything
  // is added.
  void SetOnQueued(std::function<void()> on_queued) { on_queued_ = std::move(on_queued); }
  void SetOnResult(std::function<void()> on_result) { on_result_ = std::move(on_result); }

  // RESOURCE_EXHAUSTED/LIMIT_REACHED when it is full. An order that is under way already goes on,
  // and its result answers the newest command.
  absl::Status Add(uint64_t command_id, CopyOrder order, absl::Time deadline);
  // Ends what was to come under these claims, or under claims of older terms: CANCELLED.
  void Cancel(absl::Span<const Generation> claims);
  void CancelBefore(Term term);
  // Nobody waits for results any more: ends everything, and forgets the results.
  void EndSession();
  std::vector<CopyResult> TakeResults();
  bool has_results() const;

  // The oldest order that waits; nullopt: none does. Its job is finished once.
  std::optional<CopyJob> Take();
  bool has_waiting() const;
  void Finish(uint64_t job, absl::Status status);

 private:
  struct Entry {
    uint64_t command_id = 0;
    CopyOrder order;
    absl::Time deadline;
    std::optional<CancelSource> cancel;  // of one that a worker has
    bool is_forgotten = false;           // its session is over
  };
  template <typename Predicate>
  void CancelIf(const Predicate& is_meant);

  const size_t jobs_max_;
  std::function<void()> on_queued_;
  std::function<void()> on_result_;

  mutable absl::Mutex mutex_;
  uint64_t last_job_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<CopyResult> results_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::storage_node
