// Puts memory near one socket.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace moonpool::storage_node {

// Binds pages that are not touched yet to a NUMA node. False: nothing to bind, since the machine
// has one node only. INVALID_ARGUMENT: there is no such node.
absl::StatusOr<bool> BindToNumaNode(absl::Span<std::byte> memory, int numa_node);

}  // namespace moonpool::storage_node
