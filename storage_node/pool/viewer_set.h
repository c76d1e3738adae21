// The viewers of this node's memory, and the question whether one of them looks at a generation.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/types.h"
#include "transport/target.h"

namespace moonpool::storage_node {

// Thread-safe. Its lock is a leaf: it may be taken under the lock of a segment.
class ViewerSet {
 public:
  // Borrowed until Detach has returned.
  void Attach(const transport::ViewPins* viewer);
  // Waits for a HoldsAny that is running.
  void Detach(const transport::ViewPins* viewer);

  // The caller has invalidated the header of `generation` (sequentially consistent, as are the
  // pins): a viewer that is not seen here will see the invalid header.
  bool HoldsAny(Generation generation) const;

 private:
  mutable absl::Mutex mutex_;
  std::vector<const transport::ViewPins*> viewers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::storage_node
