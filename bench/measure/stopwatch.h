// Elapsed time, and rates over it.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

namespace moonpool::bench {

class Stopwatch {
 public:
  absl::Duration elapsed() const {
    return absl::FromChrono(std::chrono::steady_clock::now() - start_);
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// 10^9 bytes per second; 0 when no time has passed.
inline double GigabytesPer(uint64_t bytes, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

}  // namespace moonpool::bench
