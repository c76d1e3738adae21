// Takes snapshots of what is stored on a thread of its own, "snapshot", one at a time: that takes
// seconds, and those who are answered meanwhile shall not wait for it.
//
//   if (!taker.is_busy()) taker.Begin(batches_max);
//   if (auto taken = taker.TakeDone()) use it;
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::cli {

// All that is stored, in at most `batches_max` (> 0) batches; the first begins with
// AllBlocksCleared. Nothing that was published before the call may be missing.
using TakeSnapshot = std::function<absl::StatusOr<std::vector<std::string>>(uint64_t batches_max)>;

// Used by one thread.
class SnapshotTaker {
 public:
  explicit SnapshotTaker(TakeSnapshot take);
  ~SnapshotTaker();  // waits for one that is being taken

  // Begun, and not yet fetched.
  bool is_busy() const;
  // Not while it is busy.
  void Begin(uint64_t batches_max);
  // What came of it, once; nullopt: nothing yet.
  std::optional<absl::StatusOr<std::vector<std::string>>> TakeDone();

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_stopping_ || wanted_.has_value();
  }

  const TakeSnapshot take_;
  mutable absl::Mutex mutex_;
  std::optional<uint64_t> wanted_ ABSL_GUARDED_BY(mutex_);  // batches_max
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::StatusOr<std::vector<std::string>>> done_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace moonpool::cli
