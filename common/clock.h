// Time as an injected dependency. Core code never asks the machine what time it is.
#pragma once

#include "absl/time/time.h"

namespace moonpool {

// A monotonic time line. Its absl::Time values are points on that line and no wall-clock dates:
// they are only compared and subtracted. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// The machine's monotonic clock (CLOCK_MONOTONIC; stands still for nobody, jumps for nobody).
class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override;
};

}  // namespace moonpool
