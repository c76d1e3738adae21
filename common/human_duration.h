// Durations for people to read: at most two units, rounded down. Not for values that are read back.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace moonpool {

// "0ms", "250ms", "3.2s", "3m 20s", "5h 12m", "8d 3h". Negative: "0ms"; infinite: "forever".
std::string HumanDuration(absl::Duration duration);

}  // namespace moonpool
