// Parts that a reader found damaged, until the scrubber has looked. Between the data servers, which
// take what anybody says, and the one thread that looks.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/types.h"
#include "storage_node/pool/part_reports.h"

namespace moonpool::storage_node {

// Bounded: what does not fit is dropped, and comes again with the next reader. A part that waits,
// or that is being looked at, is not entered once more. Thread-safe.
class DoubtedParts {
 public:
  explicit DoubtedParts(size_t size_max) : size_max_(size_max) {}

  // As in PartReports.
  void SetOnPending(std::function<void()> on_pending) { on_pending_ = std::move(on_pending); }

  void Add(const PartAt& part);
  // The oldest; it is being looked at until the next call.
  std::optional<PartAt> Take();

 private:
  const size_t size_max_;
  std::function<void()> on_pending_;

  mutable absl::Mutex mutex_;
  std::deque<PartAt> pending_ ABSL_GUARDED_BY(mutex_);
  std::optional<PartAt> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::storage_node
