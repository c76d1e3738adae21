#include "common/mutex_checks.h"

#include "absl/synchronization/mutex.h"

namespace moonpool {

void KeepMutexChecksForDebugBuilds() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace moonpool
