// Keeps a line that a peer can trigger from filling the disk.
//
//   if (auto held_back = limiter.Admit()) {
//     logger.Warn("bad frame", {{"peer", peer}, {"held_back", *held_back}});
//   }
#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace moonpool {

// A token bucket: `burst` lines at once, then one per `period`. Thread-safe.
class LogLimiter {
 public:
  LogLimiter(const Clock& clock, absl::Duration period, int burst = 1)
      : clock_(clock), period_(period), burst_(burst), tokens_(burst), refilled_at_(clock.Now()) {}

  // How many lines were held back since the last one admitted; nullopt: hold this one back too.
  std::optional<uint64_t> Admit();

 private:
  const Clock& clock_;
  const absl::Duration period_;
  const int burst_;

  absl::Mutex mutex_;
  int64_t tokens_ ABSL_GUARDED_BY(mutex_);
  absl::Time refilled_at_ ABSL_GUARDED_BY(mutex_);
  uint64_t held_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace moonpool
