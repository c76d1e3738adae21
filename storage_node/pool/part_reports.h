// Parts of which the master has not been told something: that they are sealed, or that they are
// lost. Between those who add, on the data path and elsewhere, and the link to the master, which
// takes.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/types.h"

namespace moonpool::storage_node {

struct PartAt {
  Generation generation;
  Extent extent;
  bool operator==(const PartAt&) const = default;
};

// Bounded: when nobody takes for too long, what does not fit is dropped and the overflow is
// remembered: a new session with its inventory tells the master instead. Thread-safe.
class PartReports {
 public:
  explicit PartReports(size_t size_max) : size_max_(size_max) {}

  // Called (on the adding thread, without a lock) when there is something to take after there was
  // nothing; it must not block. Set before anything is added.
  void SetOnPending(std::function<void()> on_pending) { on_pending_ = std::move(on_pending); }

  void Add(const PartAt& part);
  // The oldest ones, at most `size_max`.
  std::vector<PartAt> Take(size_t size_max);
  // Drops everything and forgets the overflow: the inventory that is about to start has it all.
  void Clear();

  size_t size() const;
  bool has_overflowed() const;

 private:
  const size_t size_max_;
  std::function<void()> on_pending_;

  mutable absl::Mutex mutex_;
  std::deque<PartAt> pending_ ABSL_GUARDED_BY(mutex_);
  bool has_overflowed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace moonpool::storage_node
