#include "tests/harness/leader_probe.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "common/version.h"
#include "moonpool/v1/admin.grpc.pb.h"

namespace moonpool::harness {

bool Leads(const std::string& master, absl::Duration timeout) {
  // A channel of its own: one that is shared would wait before it connects again.
  grpc::ChannelArguments alone;
  alone.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::AdminService::NewStub(
      grpc::CreateCustomChannel(master, grpc::InsecureChannelCredentials(), alone));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  v1::GetStatusRequest request;
  request.mutable_version()->set_major(kWireMajor);
  request.mutable_version()->set_minor(kWireMinor);
  v1::GetStatusResponse response;
  return stub->GetStatus(&context, request, &response).ok();
}

}  // namespace moonpool::harness
