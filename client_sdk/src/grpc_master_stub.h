// The master over gRPC.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client_sdk/core/master_stub.h"
#include "common/clock.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::client {

// Knows several masters and stays with the one that answered last; when it is out of reach the
// next ones are tried, each once per call. A call on a thread blocks that thread. Errors name the
// address. Thread-safe. Borrows clock.
class GrpcMasterStub final : public MasterStub {
 public:
  // At least one address, "host:port".
  GrpcMasterStub(const std::vector<std::string>& addresses, const Clock& clock);
  ~GrpcMasterStub() override;

  absl::StatusOr<v1::OpenNamespaceResponse> OpenNamespace(const v1::OpenNamespaceRequest& request,
                                                          const CallContext& context) override;
  absl::StatusOr<v1::StartPutsResponse> StartPuts(const v1::StartPutsRequest& request,
                                                  const CallContext& context) override;
  absl::StatusOr<v1::CommitPutsResponse> CommitPuts(const v1::CommitPutsRequest& request,
                                                    const CallContext& context) override;
  absl::StatusOr<v1::AbortPutsResponse> AbortPuts(const v1::AbortPutsRequest& request,
                                                  const CallContext& context) override;
  absl::StatusOr<v1::LocateResponse> Locate(const v1::LocateRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<v1::MatchPrefixResponse> MatchPrefix(const v1::MatchPrefixRequest& request,
                                                      const CallContext& context) override;
  absl::StatusOr<v1::ExistsResponse> Exists(const v1::ExistsRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<v1::RemoveResponse> Remove(const v1::RemoveRequest& request,
                                            const CallContext& context) override;

 private:
  using Stub = v1::MasterService::Stub;
  struct Master {
    std::string address;
    std::unique_ptr<Stub> stub;
  };

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, const CallContext& context);
  absl::Status Explain(const grpc::Status& status, const Master& master,
                       const CallContext& context) const;

  const Clock& clock_;
  std::vector<Master> masters_;  // constant after construction
  std::atomic<size_t> current_{0};
};

}  // namespace moonpool::client
