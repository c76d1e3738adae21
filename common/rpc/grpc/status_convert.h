// absl::Status <-> grpc::Status, with the typed detail in grpc's error_details. Edge files only.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace moonpool {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Of a call that its caller has not cancelled. A server that shuts down has gRPC end the calls that
// reach it then with a bare CANCELLED. To the caller that is a connection that ended: UNAVAILABLE.
absl::Status FromGrpcNotCancelled(const grpc::Status& status);

}  // namespace moonpool
