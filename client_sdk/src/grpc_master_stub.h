// The master over gRPC.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client_sdk/core/master_stub.h"
#include "client_sdk/src/master_lines.h"
#include "common/clock.h"
#include "common/rpc/leader_choice.h"
#include "common/spin.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::client {

// Knows several masters and follows their leader as LeaderChoice says; each is asked at most once
// per call, and no pauses are made: UNAVAILABLE when none answers, or (NOT_LEADER) none leads now.
// Silent is also one that has a call and says nothing (a stopped process, whose connections stand):
// it is asked, by a second call that takes no time, whether it is there, and passed over when that
// is not answered either; a lone master only where the options say so. So a call that a living
// master holds is held as long as it takes. The call that was passed over may still be carried out
// when its master comes to itself: all calls are idempotent (R14). A call on a thread blocks that
// thread. Errors name the address. Thread-safe. Borrows clock.
class GrpcMasterStub final : public MasterStub {
 public:
  struct Options {
    // How long nothing is heard before a master is asked, and again before it is passed over; less
    // when the call's time, shared among the masters that are left, is less.
    absl::Duration silence_max = absl::Milliseconds(500);
    // Nobody else could serve: a lone master is waited for until the deadline, whatever it says.
    bool waits_for_lone_master = true;
  };

  // At least one address, "host:port".
  GrpcMasterStub(const std::vector<std::string>& addresses, const Clock& clock,
                 const Options& options);
  ~GrpcMasterStub() override;

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
  using Stub = v1::MasterService::Stub;

  class Round;

  // `method`: Async... of Stub or PlaceCalls.
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(Method method, const Request& request, const CallContext& context);
  LeaderChoice Known() const;
  // Connects when it is new.
  std::shared_ptr<MasterLines> MasterAt(const std::string& address);
  // One master. nullopt: it gives no sign of life.
  template <typename Response, typename Method, typename Request>
  std::optional<grpc::Status> Try(Method method, MasterLines& master, const Request& request,
                                  const CallContext& context, absl::Duration silence,
                                  Response* response) const;
  // What is waited for of the next master of the round.
  absl::Duration SilenceFor(const Round& round, absl::Duration patience,
                            const CallContext& context) const;
  // Asked on the connection on which it is silent.
  bool IsThere(const MasterLines::Lease& line, const v1::RequestHeader& header,
               const CallContext& context, absl::Duration silence) const;
  absl::Status Explain(const grpc::Status& status, absl::string_view address,
                       const CallContext& context) const;

  // Answers of a master that is near take a tenth of a millisecond, a fifth of which is waking up.
  static constexpr absl::Duration kSpin = absl::Microseconds(200);

  const Clock& clock_;
  mutable Spin spin_{kSpin};
  const Options options_;
  mutable absl::Mutex mutex_;
  LeaderChoice choice_ ABSL_GUARDED_BY(mutex_);  // what all calls have found out
  // Shared with the calls that are under way: a learnt address may be forgotten meanwhile.
  absl::flat_hash_map<std::string, std::shared_ptr<MasterLines>> masters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::client
