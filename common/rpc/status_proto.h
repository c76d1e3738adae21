// absl::Status <-> moonpool.v1.Status, the outcome of one key of a batch.
#pragma once

#include "absl/status/status.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool {

void StatusToProto(const absl::Status& status, v1::Status* proto);  // OK: cleared
absl::Status StatusFromProto(const v1::Status& proto);

}  // namespace moonpool
