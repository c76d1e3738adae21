// What the wall clock of the masters' hosts shows. It jumps, by seconds or by days, in both
// directions. All that must not notice it runs on the scheduler's time.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/time/time.h"
#include "common/random.h"

namespace moonpool::sim {

class WallClock {
 public:
  // Jumps so often per second, as the seed says; 0: it only runs on. No events are made for it, so
  // a run that never looks is the same with jumps and without.
  WallClock(uint64_t seed, double jumps) : seed_(seed), jumps_(jumps) {}

  // At a point of the scheduler's time.
  absl::Time At(absl::Time now) const {
    const absl::Duration since = now - absl::UnixEpoch();
    return absl::UnixEpoch() + kBegin + since + OffsetAfter(since);
  }

 private:
  absl::Duration OffsetAfter(absl::Duration since) const {
    const double jumped = std::floor(absl::ToDoubleSeconds(since) * jumps_);
    if (jumped < 1) return absl::ZeroDuration();
    Random random(seed_ ^ static_cast<uint64_t>(jumped));
    const absl::Duration most = random.OneIn(2) ? absl::Seconds(5) : absl::Hours(240);
    return most * (2 * random.Uniform() - 1);
  }

  static constexpr absl::Duration kBegin = absl::Seconds(1'700'000'000);
  uint64_t seed_;
  double jumps_;
};

}  // namespace moonpool::sim
