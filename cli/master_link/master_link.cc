#include "cli/master_link/master_link.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/grpc/unreachable.h"
#include "common/version.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::cli {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;  // a page of 10000 objects with long keys

void SetVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

}  // namespace

absl::Status WithNoMasterHint(const absl::Status& status) {
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail());
  absl::StrAppend(
      &detail.hint, detail.hint.empty() ? "" : " else ",
      "start a local cluster with `moonpool dev` and take the address it prints, or say "
      "where the master is with --master HOST:PORT");
  return WithDetail(status, detail);
}

struct MasterLink::Rep {
  const std::vector<std::string> masters;
  const absl::Duration timeout;
  std::vector<std::shared_ptr<grpc::Channel>> channels;

  template <typename Service, typename Request, typename Response>
  absl::StatusOr<Response> Call(const Request& request,
                                grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*));
  absl::Status NoAnswer(const absl::Status& last, const std::vector<std::string>& tried) const;
};

MasterLink::MasterLink(std::vector<std::string> masters, absl::Duration timeout)
    : rep_(new Rep{.masters = std::move(masters), .timeout = timeout, .channels = {}}) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  for (const std::string& master : rep_->masters) {
    rep_->channels.push_back(
        grpc::CreateCustomChannel(master, grpc::InsecureChannelCredentials(), arguments));
  }
}

MasterLink::~MasterLink() = default;

template <typename Service, typename Request, typename Response>
absl::StatusOr<Response> MasterLink::Rep::Call(
    const Request& request,
    grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout);
  absl::Status last;
  std::vector<std::string> tried;
  for (size_t i = 0; i < channels.size(); ++i) {
    typename Service::Stub stub(channels[i]);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    Response response;
    last = FromGrpc((stub.*method)(&context, request, &response));
    if (last.ok()) return response;
    if (last.code() != absl::StatusCode::kUnavailable) break;
    tried.push_back(DescribeUnreachable(masters[i], last.message()));
  }
  return NoAnswer(last, tried);
}

// gRPC's own words for a master that cannot be reached help nobody; a master's refusal (it has a
// reason) passes as it is.
absl::Status MasterLink::Rep::NoAnswer(const absl::Status& last,
                                       const std::vector<std::string>& tried) const {
  if (ReasonOf(last) != ErrorReason::kUnspecified) return last;
  const std::string names = absl::StrJoin(masters, ", ");
  if (last.code() == absl::StatusCode::kDeadlineExceeded) {
    return MakeError(last.code(), ErrorReason::kDeadline,
                     absl::StrCat("no answer from the master at ", names, " within ",
                                  absl::FormatDuration(timeout)),
                     {.hint = "is a moonpool-master listening there? raise --timeout if it is "
                              "only slow"});
  }
  if (last.code() != absl::StatusCode::kUnavailable) return last;
  return WithNoMasterHint(NoMasterAnswers(tried));
}

absl::StatusOr<v1::GetStatusResponse> MasterLink::GetStatus() {
  v1::GetStatusRequest request;
  SetVersion(request.mutable_version());
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::GetStatus);
}

absl::StatusOr<v1::ListNodesResponse> MasterLink::ListNodes() {
  v1::ListNodesRequest request;
  SetVersion(request.mutable_version());
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::ListNodes);
}

absl::StatusOr<v1::WhyResponse> MasterLink::Why(absl::string_view name_space,
                                                absl::string_view key) {
  v1::WhyRequest request;
  SetVersion(request.mutable_version());
  request.set_namespace_(std::string(name_space));
  request.set_key(std::string(key));
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::Why);
}

absl::Status MasterLink::ForgetNode(absl::string_view name) {
  v1::ForgetNodeRequest request;
  SetVersion(request.mutable_version());
  request.set_name(std::string(name));
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::ForgetNode).status();
}

absl::Status MasterLink::DrainNode(absl::string_view name, bool cancel) {
  v1::DrainNodeRequest request;
  SetVersion(request.mutable_version());
  request.set_name(std::string(name));
  request.set_cancel(cancel);
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::DrainNode).status();
}

absl::StatusOr<v1::ListObjectsResponse> MasterLink::ListObjects(absl::string_view name_space,
                                                                absl::string_view prefix,
                                                                absl::string_view page_token,
                                                                uint32_t limit) {
  v1::ListObjectsRequest request;
  SetVersion(request.mutable_header()->mutable_version());
  request.mutable_header()->set_namespace_(std::string(name_space));
  request.mutable_header()->set_timeout_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(rep_->timeout)));
  request.set_prefix(std::string(prefix));
  request.set_page_token(std::string(page_token));
  request.set_limit(limit);
  return rep_->Call<v1::MasterService>(request, &v1::MasterService::Stub::ListObjects);
}

}  // namespace moonpool::cli
