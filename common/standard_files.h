// The three files that every program is started with.
#pragma once

#include "absl/status/status.h"

namespace moonpool {

// First thing in every main(). A program may be started with some of them closed; their numbers
// would go to the next files that are opened, and what is printed into those. Here they get files
// on which every read and write fails.
void HoldStandardFiles();

// What was printed must have arrived: a full disk behind `> file` is a failure of the program.
// Writes out what stdout still holds. An error when that failed, or any write to stdout before.
absl::Status FlushStandardOutput();

}  // namespace moonpool
