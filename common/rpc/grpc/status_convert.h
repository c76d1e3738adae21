// absl::Status <-> grpc::Status, with the typed detail in grpc's error_details. Edge files only.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace moonpool {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace moonpool
