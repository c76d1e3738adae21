// A seal record as the master is told of it.
#pragma once

#include "moonpool/v1/membership.pb.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

void SealedPartToProto(const transport::SealRecord& record, v1::SealedPart* proto);

}  // namespace moonpool::storage_node
