// The last batches that were published, by number, for those who have missed some.
//
//   KeptBatches kept({.first_number = ..., .batches_max = 10'000, .bytes_max = 64 << 20});
//   const uint64_t number = kept.Add(payload);
//   while (auto batch = kept.From(next)) { send it; next = batch->number + 1; }
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::cli {

struct KeptBatchesOptions {
  // Of this life. More than any of the lives before, so that who knows one of those sees a gap.
  uint64_t first_number = 0;
  size_t batches_max = 10'000;  // and no more than
  size_t bytes_max = 64 << 20;
};

// Thread-safe.
class KeptBatches {
 public:
  struct Batch {
    uint64_t number = 0;
    std::shared_ptr<const std::string> payload = {};  // not copied for each who asks
  };

  explicit KeptBatches(const KeptBatchesOptions& options)
      : options_(options), next_(options.first_number) {}

  // Its number.
  uint64_t Add(const std::string& payload);
  // The batch of that number, or the oldest one after it that is kept; nullopt: there is none yet.
  std::optional<Batch> From(uint64_t number) const;
  // Of what was added from that number on some is not here any more. Numbers of former lives are
  // as good as the first one of this life.
  bool HasLost(uint64_t number) const;
  // Of the next one to come.
  uint64_t next() const;

 private:
  uint64_t oldest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return next_ - kept_.size(); }

  const KeptBatchesOptions options_;
  mutable absl::Mutex mutex_;
  std::deque<std::shared_ptr<const std::string>> kept_
      ABSL_GUARDED_BY(mutex_);  // the last of them is next_ - 1
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::cli
