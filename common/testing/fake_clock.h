// A clock that moves only when told.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "common/clock.h"

namespace moonpool {

// Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixNanos(nanos_.load()); }
  void Advance(absl::Duration duration) { nanos_ += absl::ToInt64Nanoseconds(duration); }

 private:
  std::atomic<int64_t> nanos_{1'000'000'000};
};

}  // namespace moonpool
