// Looking again and again for a moment, before a thread lets itself be put to sleep: waking it
// costs tens of microseconds, and much of what it waits for takes less.
//
//   Spin spin(absl::Microseconds(50));
//   if (spin.Try(clock, deadline, [&] { return IsThere(); })) return;
//   ... sleep until it is there ...
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "absl/time/time.h"
#include "common/clock.h"

namespace moonpool {

// Thread-safe. Of all threads alike: where it does not pay, since what they wait for takes longer,
// it is tried seldom.
class Spin {
 public:
  // Zero: never.
  explicit Spin(absl::Duration longest) : longest_(longest) {}

  // True: look() was, before `deadline` and within the longest time. It is called at least once
  // when it is called at all. Whoever else is ready to run on this processor runs in between.
  template <typename Look>
  bool Try(const Clock& clock, absl::Time deadline, Look look) {
    const int luck = luck_.load(std::memory_order_relaxed);
    if (longest_ == absl::ZeroDuration()) return false;
    if (luck < 0) {
      luck_.store(luck + 1, std::memory_order_relaxed);
      return false;
    }
    const absl::Time until = std::min(clock.Now() + longest_, deadline);
    do {
      if (look()) {
        luck_.store(kLuck, std::memory_order_relaxed);
        return true;
      }
      sched_yield();
    } while (clock.Now() < until);
    luck_.store(luck > 0 ? luck - 1 : -kRest, std::memory_order_relaxed);
    return false;
  }

 private:
  static constexpr int kLuck = 4;   // in vain, after one that was not, before it is left
  static constexpr int kRest = 16;  // times that it is left then

  const absl::Duration longest_;
  std::atomic<int> luck_ = 0;
};

}  // namespace moonpool
