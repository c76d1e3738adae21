// The control plane as the client's logic sees it: blocking calls with the messages of
// proto/moonpool/v1/master.proto; what is answered about the places of many keys comes as
// common/rpc/place_answers.h has it. Real: gRPC (client_sdk/src); simulated: tests/sim.
#pragma once

#include "absl/status/statusor.h"
#include "common/call_context.h"
#include "common/rpc/place_answers.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool::client {

// Thread-safe. Each call ends by context.deadline; UNAVAILABLE when no master answers. The stub
// fills nothing in: headers are the caller's.
class MasterStub {
 public:
  virtual ~MasterStub() = default;

  virtual absl::StatusOr<v1::OpenNamespaceResponse> OpenNamespace(
      const v1::OpenNamespaceRequest& request, const CallContext& context) = 0;
  virtual absl::StatusOr<StartPutsAnswer> StartPuts(const v1::StartPutsRequest& request,
                                                    const CallContext& context) = 0;
  virtual absl::StatusOr<CommitPutsAnswer> CommitPuts(const v1::CommitPutsRequest& request,
                                                      const CallContext& context) = 0;
  virtual absl::StatusOr<v1::AbortPutsResponse> AbortPuts(const v1::AbortPutsRequest& request,
                                                          const CallContext& context) = 0;
  virtual absl::StatusOr<LocateAnswer> Locate(const v1::LocateRequest& request,
                                              const CallContext& context) = 0;
  virtual absl::StatusOr<MatchPrefixAnswer> MatchPrefix(const v1::MatchPrefixRequest& request,
                                                        const CallContext& context) = 0;
  virtual absl::StatusOr<v1::ExistsResponse> Exists(const v1::ExistsRequest& request,
                                                    const CallContext& context) = 0;
  virtual absl::StatusOr<v1::RemoveResponse> Remove(const v1::RemoveRequest& request,
                                                    const CallContext& context) = 0;
  virtual absl::StatusOr<v1::ListObjectsResponse> ListObjects(const v1::ListObjectsRequest& request,
                                                              const CallContext& context) = 0;
};

}  // namespace moonpool::client
