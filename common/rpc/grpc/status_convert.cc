#include "common/rpc/grpc/status_convert.h"

#include <string>

#include "common/error.h"
#include "common/rpc/status_proto.h"

namespace moonpool {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Status proto;
  StatusToProto(status, &proto);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      proto.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Status proto;
  if (!status.error_details().empty() && proto.ParseFromString(status.error_details()) &&
      proto.code() == static_cast<int>(status.error_code())) {
    return StatusFromProto(proto);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::Status FromGrpcNotCancelled(const grpc::Status& status) {
  const absl::Status failure = FromGrpc(status);
  if (!absl::IsCancelled(failure) || DetailOf(failure).has_value()) return failure;
  return absl::UnavailableError("the server is shutting down");
}

}  // namespace moonpool
