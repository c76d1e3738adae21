#include "client_sdk/src/grpc_master_stub.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"

namespace moonpool::client {
namespace {

// A batch of kMaxBatchKeys with long keys and several replicas.
constexpr int kMessageBytesMax = 256 << 20;
// One attempt to connect, and the longest pause between two.
constexpr int kConnectTimeoutMs = 500;
constexpr int kReconnectFirstMs = 50;
constexpr int kReconnectMaxMs = 1000;
// A master that is held by nobody and answers nothing is noticed after the sum, during a call.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 3'000;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Retries are the caller's: it knows what may be repeated, and until when.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Two clients in one process do not wait for each other's reconnects.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// On gRPC's own monotonic clock: ours has another zero.
gpr_timespec DeadlineOf(const CallContext& context, const Clock& clock) {
  const absl::Duration remaining =
      std::clamp(context.Remaining(clock), absl::ZeroDuration(), absl::Hours(24));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(absl::ToInt64Microseconds(remaining), GPR_TIMESPAN));
}

}  // namespace

GrpcMasterStub::GrpcMasterStub(const std::vector<std::string>& addresses, const Clock& clock)
    : clock_(clock) {
  for (const std::string& address : addresses) {
    masters_.push_back({address, v1::MasterService::NewStub(Connect(address))});
  }
}

GrpcMasterStub::~GrpcMasterStub() = default;

template <typename Request, typename Response>
absl::StatusOr<Response> GrpcMasterStub::Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                           const Request&,
                                                                           Response*),
                                              const Request& request, const CallContext& context) {
  const size_t first = current_.load(std::memory_order_relaxed);
  absl::Status failure;
  for (size_t i = 0; i < masters_.size(); ++i) {
    const size_t index = (first + i) % masters_.size();
    const Master& master = masters_[index];
    grpc::ClientContext rpc;
    rpc.set_deadline(DeadlineOf(context, clock_));
    Response response;
    grpc::Status status;
    {
      const CancelCallback on_cancel = context.cancel.OnCancel([&rpc] { rpc.TryCancel(); });
      status = ((*master.stub).*method)(&rpc, request, &response);
    }
    if (status.ok()) {
      if (index != first) current_.store(index, std::memory_order_relaxed);
      return response;
    }
    failure = Explain(status, master, context);
    if (!absl::IsUnavailable(failure)) break;
  }
  return failure;
}

absl::Status GrpcMasterStub::Explain(const grpc::Status& status, const Master& master,
                                     const CallContext& context) const {
  if (context.cancel.cancelled()) return context.Check(clock_);
  absl::Status failure = FromGrpc(status);
  if (DetailOf(failure).has_value()) return failure;
  if (absl::IsUnavailable(failure)) {
    failure = MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                        failure.message(), {.hint = "is moonpool-master running there?"});
  } else if (absl::IsDeadlineExceeded(failure)) {
    failure = MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                        "no answer in time", {.hint = "raise the timeout or retry"});
  }
  return Annotate(failure, absl::StrCat("master ", master.address));
}

absl::StatusOr<v1::OpenNamespaceResponse> GrpcMasterStub::OpenNamespace(
    const v1::OpenNamespaceRequest& request, const CallContext& context) {
  return Call(&Stub::OpenNamespace, request, context);
}
absl::StatusOr<v1::StartPutsResponse> GrpcMasterStub::StartPuts(const v1::StartPutsRequest& request,
                                                                const CallContext& context) {
  return Call(&Stub::StartPuts, request, context);
}
absl::StatusOr<v1::CommitPutsResponse> GrpcMasterStub::CommitPuts(
    const v1::CommitPutsRequest& request, const CallContext& context) {
  return Call(&Stub::CommitPuts, request, context);
}
absl::StatusOr<v1::AbortPutsResponse> GrpcMasterStub::AbortPuts(const v1::AbortPutsRequest& request,
                                                                const CallContext& context) {
  return Call(&Stub::AbortPuts, request, context);
}
absl::StatusOr<v1::LocateResponse> GrpcMasterStub::Locate(const v1::LocateRequest& request,
                                                          const CallContext& context) {
  return Call(&Stub::Locate, request, context);
}
absl::StatusOr<v1::MatchPrefixResponse> GrpcMasterStub::MatchPrefix(
    const v1::MatchPrefixRequest& request, const CallContext& context) {
  return Call(&Stub::MatchPrefix, request, context);
}
absl::StatusOr<v1::ExistsResponse> GrpcMasterStub::Exists(const v1::ExistsRequest& request,
                                                          const CallContext& context) {
  return Call(&Stub::Exists, request, context);
}
absl::StatusOr<v1::RemoveResponse> GrpcMasterStub::Remove(const v1::RemoveRequest& request,
                                                          const CallContext& context) {
  return Call(&Stub::Remove, request, context);
}

}  // namespace moonpool::client
