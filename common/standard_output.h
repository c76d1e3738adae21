// What was printed must have arrived: a full disk behind `> file` is a failure of the program.
#pragma once

#include "absl/status/status.h"

namespace moonpool {

// Writes out what stdout still holds. An error when that failed, or any write to stdout before.
absl::Status FlushStandardOutput();

}  // namespace moonpool
