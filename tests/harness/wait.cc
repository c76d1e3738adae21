#include "tests/harness/wait.h"

#include <poll.h>

#include "common/clock.h"

namespace moonpool::harness {
namespace {

constexpr int kPollMillis = 5;

}  // namespace

bool Eventually(const std::function<bool()>& predicate, absl::Duration timeout) {
  const SteadyClock clock;
  const absl::Time deadline = clock.Now() + timeout;
  while (!predicate()) {
    if (clock.Now() >= deadline) return false;
    poll(nullptr, 0, kPollMillis);
  }
  return true;
}

}  // namespace moonpool::harness
