// Pauses between attempts: exponential, jittered, bounded in number and by the caller's deadline.
//
//   Backoff backoff({.attempts_max = 4}, random, waiter);
//   do {
//     status = Try();
//   } while (IsRetryable(status) && backoff.Pause(context));
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/call_context.h"
#include "common/random.h"
#include "transport/waiter.h"

namespace moonpool::client {

// One source of randomness for all threads of a client. Thread-safe.
class SharedRandom {
 public:
  explicit SharedRandom(uint64_t seed) : random_(seed) {}
  uint64_t Next() {
    absl::MutexLock lock(&mutex_);
    return random_.Next();
  }
  // Uniform in [0.75, 1.25) times the duration, in whole microseconds.
  absl::Duration Jitter(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    return absl::Trunc(duration * (0.75 + 0.5 * random_.Uniform()), absl::Microseconds(1));
  }

 private:
  absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
};

struct BackoffOptions {
  absl::Duration initial = absl::Milliseconds(5);
  absl::Duration max = absl::Milliseconds(500);
  int attempts_max = 64;  // the first attempt included
};

// Used by one call. Borrows random and waiter.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, SharedRandom& random, transport::Waiter& waiter)
      : options_(options), random_(random), waiter_(waiter), next_(options.initial) {}

  // Waits before another attempt and returns true; false, at once, when the attempts are used up
  // or none would begin before the context ends.
  bool Pause(const CallContext& context);

 private:
  const BackoffOptions options_;
  SharedRandom& random_;
  transport::Waiter& waiter_;
  absl::Duration next_;
  int attempts_ = 1;
};

}  // namespace moonpool::client
