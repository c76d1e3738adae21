// Whether this process is still the one that made something: memory that is shared with the node is
// also shared with every forked child, and a child must not release its parent's pins.
#pragma once

#include <cstdint>

namespace moonpool::transport {

// Grows in a child with each fork after the first call; a process that never forks sees one value.
// Cheap: a relaxed load.
uint64_t ForkEpoch();

}  // namespace moonpool::transport
