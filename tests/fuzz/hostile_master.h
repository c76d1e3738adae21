// A master whose answers are whatever the input makes them: what a client could be told, with any
// field wrong, and bytes that are whatever they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client_sdk/core/master_stub.h"
#include "client_sdk/core/testing/fake_nodes.h"
#include "tests/fuzz/byte_feed.h"

namespace moonpool::client {

class HostileMaster final : public MasterStub {
 public:
  HostileMaster(ByteFeed& feed, FakeNodes& nodes) : feed_(feed), nodes_(nodes) {}

  // An object that nodes hold, to be told of, under its key or another.
  void Know(v1::Location location) { known_.push_back(std::move(location)); }

  absl::StatusOr<v1::OpenNamespaceResponse> OpenNamespace(const v1::OpenNamespaceRequest& request,
                                                          const CallContext& context) override;
  absl::StatusOr<StartPutsAnswer> StartPuts(const v1::StartPutsRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<CommitPutsAnswer> CommitPuts(const v1::CommitPutsRequest& request,
                                              const CallContext& context) override;
  absl::StatusOr<v1::AbortPutsResponse> AbortPuts(const v1::AbortPutsRequest& request,
                                                  const CallContext& context) override;
  absl::StatusOr<LocateAnswer> Locate(const v1::LocateRequest& request,
                                      const CallContext& context) override;
  absl::StatusOr<MatchPrefixAnswer> MatchPrefix(const v1::MatchPrefixRequest& request,
                                                const CallContext& context) override;
  absl::StatusOr<v1::ExistsResponse> Exists(const v1::ExistsRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<v1::RemoveResponse> Remove(const v1::RemoveRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<v1::ListObjectsResponse> ListObjects(const v1::ListObjectsRequest& request,
                                                      const CallContext& context) override;

 private:
  // As many answers as keys, mostly.
  int CountFor(int keys);
  // The answer, an error of the call, or bytes of the input in its place.
  template <typename Response>
  absl::StatusOr<Response> Deliver(Response response);
  template <typename Answer, typename Response>
  absl::StatusOr<Answer> DeliverPlaces(Response response);
  // Its bytes.
  template <typename Response>
  absl::StatusOr<std::string> Send(Response& response);
  v1::Status Outcome();
  v1::Status Failure();
  v1::Grant Grant(uint64_t size_bytes);
  v1::Location Location();
  v1::Replica Replica(uint64_t size_bytes);
  void Distort(google::protobuf::RepeatedPtrField<v1::Replica>& replicas);
  void FillNodes(google::protobuf::RepeatedPtrField<v1::NodeAddress>* nodes);

  ByteFeed& feed_;
  FakeNodes& nodes_;
  std::vector<v1::Location> known_;
  uint32_t grants_ = 0;
};

}  // namespace moonpool::client
