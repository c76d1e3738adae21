// A master with the simplest semantics that satisfy the protocol, and faults on demand.
//
//   FakeMaster master(nodes, clock);
//   master.Fail("CommitPuts", absl::UnavailableError("no leader"), {.times = 2});
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "client_sdk/core/master_stub.h"
#include "client_sdk/core/testing/fake_nodes.h"
#include "common/testing/fake_clock.h"

namespace moonpool::client {

struct FakeMasterFault {
  int times = 1;
  bool is_applied = false;  // the call takes effect, and its answer is lost
};

// Thread-safe, but what is public data is set while no call runs.
class FakeMaster final : public MasterStub {
 public:
  FakeMaster(FakeNodes& nodes, FakeClock& clock) : nodes_(nodes), clock_(clock) {}

  // The next calls of a method fail. With DEADLINE_EXCEEDED the clock goes to the call's deadline.
  void Fail(absl::string_view method, absl::Status status, FakeMasterFault fault = {});
  // Runs before a call is served, without a lock.
  std::function<void(absl::string_view method)> on_call;
  // Node names, first choice first; replica i goes to the i-th after a rotation by key. Empty: all.
  std::vector<std::string> placement;
  std::vector<std::string> start_hosts;  // where the callers of StartPuts said that they were
  std::vector<uint32_t> list_limits;     // how many objects the callers of ListObjects wanted
  std::string fingerprint;    // what OpenNamespace answers; empty: what it was asked with
  uint32_t spares_max = 0;    // spare grants that it gives with one commit
  uint64_t stripe_bytes = 0;  // parts of this size, on different nodes; 0: one part
  unsigned version_major = 1;
  int starts_without_nodes = 0;  // the next ones are refused with NO_NODES
  absl::Duration nodes_come_within = absl::Milliseconds(100);  // it says; 0: it does not expect any

  // What the master may do by itself.
  void Evict(const std::string& key);
  Generation GenerationOf(const std::string& key) const;
  std::vector<std::string> NodesOf(const std::string& key) const;
  // The seal report of a node arrives (R3): the grant is committed.
  void CommitBySeal(const std::string& key);
  // Another master leads: it knows no grants and no requests, adopts what was sealed under them,
  // and has handles of its own.
  void ChangeLeader();

  int calls(absl::string_view method) const;
  int calls() const;
  std::vector<v1::Touch> touched() const;     // all of them, in order
  std::vector<uint64_t> request_ids() const;  // of StartPuts
  std::vector<v1::AbortPut> aborts() const;
  size_t open_grants() const;
  size_t spares() const;  // that are out

  // What goes over the wire in answer to these.
  absl::StatusOr<v1::StartPutsResponse> Reply(const v1::StartPutsRequest& request,
                                              const CallContext& context);
  absl::StatusOr<v1::CommitPutsResponse> Reply(const v1::CommitPutsRequest& request,
                                               const CallContext& context);
  absl::StatusOr<v1::LocateResponse> Reply(const v1::LocateRequest& request,
                                           const CallContext& context);
  absl::StatusOr<v1::MatchPrefixResponse> Reply(const v1::MatchPrefixRequest& request,
                                                const CallContext& context);

  absl::StatusOr<v1::OpenNamespaceResponse> OpenNamespace(const v1::OpenNamespaceRequest& request,
                                                          const CallContext& context) override;
  absl::StatusOr<StartPutsAnswer> StartPuts(const v1::StartPutsRequest& request,
                                            const CallContext& context) override {
    return AnswerOf<StartPutsAnswer>(Reply(request, context));
  }
  absl::StatusOr<CommitPutsAnswer> CommitPuts(const v1::CommitPutsRequest& request,
                                              const CallContext& context) override {
    return AnswerOf<CommitPutsAnswer>(Reply(request, context));
  }
  absl::StatusOr<v1::AbortPutsResponse> AbortPuts(const v1::AbortPutsRequest& request,
                                                  const CallContext& context) override;
  absl::StatusOr<LocateAnswer> Locate(const v1::LocateRequest& request,
                                      const CallContext& context) override {
    return AnswerOf<LocateAnswer>(Reply(request, context));
  }
  absl::StatusOr<MatchPrefixAnswer> MatchPrefix(const v1::MatchPrefixRequest& request,
                                                const CallContext& context) override {
    return AnswerOf<MatchPrefixAnswer>(Reply(request, context));
  }
  absl::StatusOr<v1::ExistsResponse> Exists(const v1::ExistsRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<v1::RemoveResponse> Remove(const v1::RemoveRequest& request,
                                            const CallContext& context) override;
  absl::StatusOr<v1::ListObjectsResponse> ListObjects(const v1::ListObjectsRequest& request,
                                                      const CallContext& context) override;

 private:
  struct Object {
    std::string key;
    uint64_t size_bytes = 0;
    uint64_t generation = 0;
    uint32_t handle = 0;
    std::vector<v1::Replica> replicas;
  };
  struct Fault {
    std::string method;
    absl::Status status;
    FakeMasterFault fault;
  };

  template <typename Request, typename Response, typename Serve>
  absl::StatusOr<Response> Run(absl::string_view method, const Request& request,
                               const CallContext& context, Response response, Serve serve);
  void StartPut(const v1::PutKey& put, uint64_t request_id, uint32_t replicas,
                v1::PutResult* result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Object Place(const v1::PutKey& put, uint32_t replicas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsNamedBy(const v1::CommitPut& put, const Object& object);
  absl::Status CommitOne(const v1::CommitPut& put) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CommitSpare(const v1::CommitPut& put, v1::BoundPut* bound)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void FillGrant(const Object& object, v1::Grant* grant);
  absl::Status MissOf(const std::string& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const std::string& key, ErrorReason why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillLocation(const Object& object, uint64_t lease_ms, v1::Location* location) const;
  void FillNodes(google::protobuf::RepeatedPtrField<v1::NodeAddress>* nodes) const;

  FakeNodes& nodes_;
  FakeClock& clock_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Object> live_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Object> granted_ ABSL_GUARDED_BY(mutex_);  // one open grant per key
  std::map<uint64_t, Object> spares_ ABSL_GUARDED_BY(mutex_);      // by generation; without a key
  std::map<std::pair<uint64_t, std::string>, uint64_t> by_request_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ErrorReason> gone_ ABSL_GUARDED_BY(mutex_);
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Touch> touched_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> request_ids_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::AbortPut> aborts_ ABSL_GUARDED_BY(mutex_);
  uint32_t counter_ ABSL_GUARDED_BY(mutex_) = 0;
  Term term_ ABSL_GUARDED_BY(mutex_) = Term{1};
};

}  // namespace moonpool::client
