// The processor time that this process and some others have used.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <vector>

#include "absl/time/time.h"

namespace moonpool::bench {

class CpuMeter {
 public:
  // `others`: of the same user; one that has ended counts as having used nothing.
  explicit CpuMeter(const std::vector<pid_t>& others) {
    clocks_.push_back(CLOCK_PROCESS_CPUTIME_ID);
    for (const pid_t other : others) {
      clockid_t clock;
      if (clock_getcpuclockid(other, &clock) == 0) clocks_.push_back(clock);
    }
    begun_ = Total();
  }

  // Since the meter was made, user and system, all threads.
  absl::Duration used() const { return Total() - begun_; }

 private:
  absl::Duration Total() const {
    absl::Duration total;
    for (const clockid_t clock : clocks_) {
      timespec used{};
      if (clock_gettime(clock, &used) == 0) total += absl::DurationFromTimespec(used);
    }
    return total;
  }

  std::vector<clockid_t> clocks_;
  absl::Duration begun_;
};

}  // namespace moonpool::bench
