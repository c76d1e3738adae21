#include "common/steady_cond_var.h"

#include <algorithm>

#include "common/clock.h"

namespace moonpool {
namespace {

// No wait is longer: a time that far away still is one that the clock can show.
constexpr absl::Duration kLongest = absl::Hours(24);

// What std::condition_variable_any asks of a lock.
struct Lockable {
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
  absl::Mutex* mutex;
};

}  // namespace

void SteadyCondVar::WaitFor(absl::Mutex* mutex, absl::Duration timeout) {
  Lockable lockable{mutex};
  // wait_for counts on std::chrono::steady_clock, which is CLOCK_MONOTONIC.
  condition_.wait_for(
      lockable, absl::ToChronoNanoseconds(std::clamp(timeout, absl::ZeroDuration(), kLongest)));
}

bool SteadyCondVar::Await(absl::Mutex* mutex, absl::Duration timeout,
                          absl::FunctionRef<bool()> is_due) {
  const SteadyClock clock;
  const absl::Time until = clock.Now() + timeout;
  while (!is_due()) {
    const absl::Duration left = until - clock.Now();
    if (left <= absl::ZeroDuration()) return false;
    WaitFor(mutex, left);
  }
  return true;
}

}  // namespace moonpool
