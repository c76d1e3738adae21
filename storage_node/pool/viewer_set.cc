#include "storage_node/pool/viewer_set.h"

#include <algorithm>

#include "common/check.h"
#include "common/guard.h"

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
  if (!GuardIsOn(Guard::kViewPins)) return false;
  absl::ReaderMutexLock lock(&mutex_);
  return std::any_of(
      viewers_.begin(), viewers_.end(),
      [generation](const transport::ViewPins* viewer) { return viewer->Holds(generation); });
}

}  // namespace moonpool::storage_node
