#include "storage_node/pool/viewer_set.h"

#include <algorithm>
#include <atomic>

#include "common/check.h"

namespace moonpool::storage_node {

void ViewerSet::Attach(const transport::ViewPins* viewer) {
  absl::MutexLock lock(&mutex_);
  viewers_.push_back(viewer);
}

void ViewerSet::Detach(const transport::ViewPins* viewer) {
  absl::MutexLock lock(&mutex_);
  const auto it = std::find(viewers_.begin(), viewers_.end(), viewer);
  MP_CHECK(it != viewers_.end(), "detached a viewer that is not attached");
  viewers_.erase(it);
}

bool ViewerSet::HoldsAny(Generation generation) const {
  absl::ReaderMutexLock lock(&mutex_);
  return std::any_of(
      viewers_.begin(), viewers_.end(),
      [generation](const transport::ViewPins* viewer) { return viewer->Holds(generation); });
}

// g++ warns that ThreadSanitizer does not model fences. It need not here: what the fence orders is
// an atomic of ours and an atomic of a peer process.
#pragma GCC diagnostic push
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic ignored "-Wtsan"
#endif
void SeqCstFence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#pragma GCC diagnostic pop

}  // namespace moonpool::storage_node
