// Waiting for what can be observed, with a deadline, in tests and scenarios of real processes.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace moonpool::harness {

// How long anything may take before who waits gives up on it.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

// True as soon as `predicate` is; false when it never was within `timeout`.
bool Eventually(const std::function<bool()>& predicate, absl::Duration timeout = kPatience);

}  // namespace moonpool::harness
