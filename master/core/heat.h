// How often an object was read lately, in one byte: a count of up to 15 steps and the window, one
// of 16, in which it was last read. Nothing has to look at all objects for counts to fall: a count
// is halved when it is touched in the next window, and starts anew after that. A step stands for
// several reads when the limit is larger than what fits; then each read counts with the chance of
// one in so many.
//
// An object that rests for exactly 16 windows is taken for one that was read just before.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/random.h"

namespace moonpool::master {

class HeatScale {
 public:
  // `reads` within a window make an object hot.
  HeatScale(uint32_t reads, absl::Duration window)
      : step_(reads / kHotSteps + (reads % kHotSteps == 0 ? 0 : 1)),
        hot_steps_(static_cast<uint8_t>((std::max(reads, 1u) + step_ - 1) / std::max(step_, 1u))),
        window_(window) {}

  uint8_t AfterRead(uint8_t heat, absl::Duration age, Random& random) const {
    const uint8_t now = WindowAt(age);
    const uint8_t since = (now - heat) & 0xf;
    uint8_t steps = heat >> 4;
    if (since == 1) steps /= 2;
    if (since > 1) steps = 0;
    if (steps < 15 && (step_ <= 1 || random.OneIn(step_))) ++steps;
    return static_cast<uint8_t>(steps << 4 | now);
  }
  bool IsHot(uint8_t heat, absl::Duration age) const {
    return WindowsSince(heat, age) <= 1 && (heat >> 4) >= hot_steps_;
  }
  // Windows that have passed since the last read, up to 15; of one that was never read as well.
  uint8_t WindowsSince(uint8_t heat, absl::Duration age) const {
    return heat == 0 ? 15 : (WindowAt(age) - heat) & 0xf;
  }

 private:
  static constexpr uint32_t kHotSteps = 12;

  uint8_t WindowAt(absl::Duration age) const { return (age / window_) & 0xf; }

  uint32_t step_;  // reads
  uint8_t hot_steps_;
  absl::Duration window_;
};

}  // namespace moonpool::master
