#include "common/log_limiter.h"

#include <algorithm>
#include <utility>

namespace moonpool {

std::optional<uint64_t> LogLimiter::Admit() {
  absl::MutexLock lock(&mutex_);
  absl::Duration remainder;
  const absl::Duration elapsed = clock_.Now() - refilled_at_;
  const int64_t earned = absl::IDivDuration(elapsed, period_, &remainder);
  if (earned > 0) {
    tokens_ = std::min<int64_t>(burst_, tokens_ + std::min<int64_t>(earned, burst_));
    refilled_at_ += elapsed - remainder;  // the fraction of a period already waited is kept
  }
  if (tokens_ == 0) {
    ++held_back_;
    return std::nullopt;
  }
  --tokens_;
  return std::exchange(held_back_, 0);
}

}  // namespace moonpool
