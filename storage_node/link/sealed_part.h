// A seal record as the master is told of it, and tells of it.
#pragma once

#include "absl/status/statusor.h"
#include "moonpool/v1/membership.pb.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

void SealedPartToProto(const transport::SealRecord& record, v1::SealedPart* proto);
// Without the payload's checksum, of which the wire says nothing. INVALID_ARGUMENT/BAD_ARGUMENT
// when it is no record that could be sealed.
absl::StatusOr<transport::SealRecord> SealRecordFromProto(const v1::SealedPart& proto);

}  // namespace moonpool::storage_node
