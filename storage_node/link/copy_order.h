// The master's order to copy a part, from the wire.
#pragma once

#include "absl/status/statusor.h"
#include "moonpool/v1/membership.pb.h"
#include "storage_node/copy/copy_queue.h"

namespace moonpool::storage_node {

// INVALID_ARGUMENT/BAD_ARGUMENT when nothing like it can be sealed anywhere.
absl::StatusOr<CopyOrder> CopyOrderFromProto(const v1::Copy& proto);

}  // namespace moonpool::storage_node
