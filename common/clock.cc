#include "common/clock.h"

#include <ctime>

namespace moonpool {

absl::Time SteadyClock::Now() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace moonpool
