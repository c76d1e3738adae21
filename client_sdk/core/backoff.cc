#include "client_sdk/core/backoff.h"

#include <algorithm>

namespace moonpool::client {

bool Backoff::Pause(const CallContext& context) {
  if (attempts_ >= options_.attempts_max) return false;
  ++attempts_;
  const Clock& clock = waiter_.clock();
  const absl::Time until = clock.Now() + random_.Jitter(next_);
  next_ = std::min(next_ * 2, options_.max);
  if (until >= context.deadline) return false;
  while (clock.Now() < until) {
    if (context.cancel.cancelled()) return false;
    waiter_.Wait({}, {.deadline = until, .cancel = context.cancel});
  }
  return context.Check(clock).ok();
}

}  // namespace moonpool::client
