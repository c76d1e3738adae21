// The master over gRPC.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client_sdk/core/master_stub.h"
#include "common/clock.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::client {

// Knows several masters and stays with the one that answered last; when it is out of reach the
// next ones are tried, each once per call. Out of reach is also one that has a call and says
// nothing (a stopped process, whose connections stand): it is asked, by a second call that takes no
// time, whether it is there, and passed over when that is not answered either; a lone master only
// where the options say so. So a call that a living master holds is held as long as it takes. The
// call that was passed over may still be carried out when its master comes to itself: all calls are
// idempotent (R14). A call on a thread blocks that thread. Errors name the address. Thread-safe.
// Borrows clock.
class GrpcMasterStub final : public MasterStub {
 public:
  struct Options {
    // How long nothing is heard before a master is asked, and again before it is passed over; less
    // when the call's time, shared among the masters that are left, is less.
    absl::Duration silence_max = absl::Seconds(1);
    // Nobody else could serve: a lone master is waited for until the deadline, whatever it says.
    bool waits_for_lone_master = true;
  };

  // At least one address, "host:port".
  GrpcMasterStub(const std::vector<std::string>& addresses, const Clock& clock,
                 const Options& options);
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
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request,
                                const CallContext& context);
  // One master. nullopt: it gives no sign of life.
  template <typename Request, typename Response>
  std::optional<grpc::Status> Try(Method<Request, Response> method, const Master& master,
                                  const Request& request, const CallContext& context,
                                  absl::Duration silence, Response* response) const;
  // What is waited for of a master while `left` are to be tried, it included.
  absl::Duration SilenceFor(const CallContext& context, size_t left) const;
  bool IsThere(const Master& master, const v1::RequestHeader& header, const CallContext& context,
               absl::Duration silence) const;
  absl::Status Explain(const grpc::Status& status, const Master& master,
                       const CallContext& context) const;

  const Clock& clock_;
  const Options options_;
  std::vector<Master> masters_;  // constant after construction
  std::atomic<size_t> current_{0};
};

}  // namespace moonpool::client
