// The master's services without a wire under them: requests go to the core, answers come back, and
// what has to wait waits here.
//
//   Core core(core_options, term, Random(seed));
//   Handlers handlers(core, HandlersOptions{}, clock.Now());
//   CallId call = handlers.StartPuts(request, clock.Now(),
//       {&response, [](absl::Status status) { ...read the response... }});
//   handlers.Cancel(call, clock.Now());        // the caller has gone
//   ...
//   while (...) handlers.Tick(clock.Now());    // no later than handlers.NextWakeup()
//
// No gRPC, threads, clocks or sockets: the edge (master/service) and the simulator drive it. Every
// method runs to its end without blocking. Externally serialised, together with the core and all
// sessions. `now` is a point on one monotonic line and never goes back.
//
// Done is called exactly once per call: before the method returns, or during any later one.
#pragma once

#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/wire/encoded.h"
#include "master/core/core.h"
#include "master/handlers/counts.h"
#include "master/handlers/done.h"
#include "master/handlers/node_session.h"
#include "master/handlers/options.h"
#include "master/handlers/session_table.h"
#include "master/handlers/unsaved_changes.h"
#include "master/handlers/waiters.h"
#include "master/handlers/waiting_for_save.h"
#include "master/handlers/watcher.h"
#include "master/meta/meta_store.h"
#include "moonpool/v1/admin.pb.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool::master {

class RequestView;
class StartPutsView;

// UNAVAILABLE/SHUTTING_DOWN.
absl::Status ShuttingDown();

class Handlers {
 public:
  // `core` is borrowed. Sessions are closed before this object dies.
  Handlers(Core& core, const HandlersOptions& options, absl::Time now);
  ~Handlers();
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

  // --- MasterService. Requests are borrowed for the call. Everything from the wire is checked
  // here or in the core: FAILED_PRECONDITION/PEER_VERSION, INVALID_ARGUMENT/BATCH_TOO_LARGE or
  // BAD_ARGUMENT for a request as a whole. After Shutdown: UNAVAILABLE/SHUTTING_DOWN. Messages with
  // places of many keys come, or go, as bytes that were no objects (common/wire).

  // Answered when the namespace is durable; RESOURCE_EXHAUSTED or UNAVAILABLE/NOT_SAVED when it
  // cannot be made so.
  CallId OpenNamespace(const v1::OpenNamespaceRequest& request, absl::Time now,
                       Done<v1::OpenNamespaceResponse> done);
  // Waits when asked to; then, at the end of the caller's time, answers with the core's refusal of
  // each key. A key that had to wait when there were too many waiters: LIMIT_REACHED.
  CallId StartPuts(const Encoded<v1::StartPutsRequest>& encoded, absl::Time now,
                   Done<Encoded<v1::StartPutsResponse>> done);
  // Whose key was taken is told so when nodes have forgotten what was written under the spare
  // grant, or at the end of the caller's time.
  CallId CommitPuts(const v1::CommitPutsRequest& request, absl::Time now,
                    Done<v1::CommitPutsResponse> done);
  void AbortPuts(const v1::AbortPutsRequest& request, absl::Time now,
                 Done<v1::AbortPutsResponse> done);
  CallId Locate(const Encoded<v1::LocateRequest>& encoded, absl::Time now,
                Done<Encoded<v1::LocateResponse>> done);
  void MatchPrefix(const Encoded<v1::MatchPrefixRequest>& encoded, absl::Time now,
                   Done<Encoded<v1::MatchPrefixResponse>> done);
  void Exists(const v1::ExistsRequest& request, absl::Time now, Done<v1::ExistsResponse> done);
  // Waits for the confirmation of every holder; keys without it at the end of the caller's time
  // are DEADLINE_EXCEEDED, and gone for readers.
  CallId Remove(const v1::RemoveRequest& request, absl::Time now, Done<v1::RemoveResponse> done);
  void ListObjects(const v1::ListObjectsRequest& request, absl::Time now,
                   Done<v1::ListObjectsResponse> done);

  // Ends a call that waits with CANCELLED; the grants that it would have brought are given back.
  // Nothing for a call that is done.
  void Cancel(CallId call, absl::Time now);

  // --- AdminService.

  void GetStatus(const v1::GetStatusRequest& request, absl::Time now,
                 Done<v1::GetStatusResponse> done);
  void ListNodes(const v1::ListNodesRequest& request, absl::Time now,
                 Done<v1::ListNodesResponse> done);
  void Why(const v1::WhyRequest& request, absl::Time now, Done<v1::WhyResponse> done);
  // Answered when the master to come will not take it for a node that may return.
  CallId ForgetNode(const v1::ForgetNodeRequest& request, absl::Time now,
                    Done<v1::ForgetNodeResponse> done);

  // Answered when the masters to come will know of it.
  CallId DrainNode(const v1::DrainNodeRequest& request, absl::Time now,
                   Done<v1::DrainNodeResponse> done);

  // --- MembershipService: one NodeSession per stream, see node_session.h.

  // RESOURCE_EXHAUSTED/LIMIT_REACHED, UNAVAILABLE/SHUTTING_DOWN.
  absl::StatusOr<std::unique_ptr<NodeSession>> OpenSession(NodeSession::OnReady on_ready,
                                                           absl::Time now);
  void OnNodeMessage(NodeSession& session, const v1::NodeMessage& message, absl::Time now);
  // The stream is gone, or has sent all that it had to. The session is of no use after it.
  void CloseSession(NodeSession& session, absl::Time now);

  // --- EventService: one Watcher per stream, see watcher.h.

  // RESOURCE_EXHAUSTED/LIMIT_REACHED, FAILED_PRECONDITION (PEER_VERSION; BAD_ARGUMENT: no events
  // are kept), UNAVAILABLE/SHUTTING_DOWN. Ends with the reign, or when that may not answer.
  absl::StatusOr<std::unique_ptr<Watcher>> Watch(const v1::WatchRequest& request,
                                                 Watcher::OnReady on_ready, absl::Time now);

  // --- Durable state, of a core that keeps it. There is one write at a time.

  // What is to be written to the meta store now. To be asked after every other method.
  std::optional<MetaBatch> TakeWrite(absl::Time now) { return unsaved_.TakeBatch(now); }
  // How that write ended. With STALE_TERM all calls and sessions end: see is_deposed.
  void OnWritten(const absl::Status& status, absl::Time now);
  bool is_deposed() const { return unsaved_.is_deposed(); }

  // --- Time.

  // Advances the core, ends waits and sessions whose time is over, tries the rest again.
  void Tick(absl::Time now);
  // When Tick is due: at once while something is left to do.
  absl::Time NextWakeup() const;
  // Ends all waits and sessions with UNAVAILABLE/SHUTTING_DOWN, and every later call. Idempotent.
  void Shutdown(absl::Time now);
  // The same with NOT_LEADER, which nodes are told in so many words (Refused): another master
  // leads.
  void Depose(const absl::Status& not_leader, absl::Time now);
  // For a leader that may not answer, and may yet go on: ends the waits, and acknowledges no
  // heartbeat until Resume, so that nodes look whether another leads.
  void FallSilent(const absl::Status& not_leader, absl::Time now);
  void Resume();
  // Ends the sessions that are open now.
  void RefuseSessions(const absl::Status& not_leader, absl::Time now);

  const HandlerCounts& counts() const { return counts_; }
  size_t waiter_count() const { return waiters_.size(); }
  size_t session_count() const { return sessions_.size(); }
  size_t watcher_count() const { return watchers_.size(); }
  size_t unsaved_count() const { return unsaved_.size(); }

 private:
  // What every call begins with: the master serves, and the header is right.
  absl::Status Admit(const v1::RequestHeader& header, int batch = 0);
  absl::Status Admit(const RequestView& request, int batch);
  absl::Status AdmitVersion(const v1::Version& version);
  // When a call that came now and says how much time it has is to be answered.
  absl::Time AnswerBy(const v1::RequestHeader& header, absl::Time now) const;
  // Answers when the change is durable, or cannot be made so, at `deadline` at the latest.
  CallId AnswerWhenSaved(ChangeNumber number, absl::Time deadline, absl::Time now,
                         WaitingForSave::Answer answer);
  // Answers a call of an operator when its change is durable.
  template <typename Response>
  CallId AnswerChange(const absl::StatusOr<ChangeNumber>& saved_by, absl::Time now,
                      Done<Response> done);
  // True when the put has to stand in the queue for space before it is tried.
  bool HasToQueue(const StartPutsView& request, absl::Time now);
  void GiveSpares(const v1::CommitPutsRequest& request, const Caller& caller, absl::Time now,
                  v1::CommitPutsResponse& response);
  // After the core was changed: sends its commands and tries who waits.
  void Settle(absl::Time now);
  // Routes the core's commands and ends the sessions that it gave up; true when a removal was
  // confirmed.
  bool SendEffects(absl::Time now);
  void RetryWaiters(Waiters::Occasion occasion, absl::Time now);
  // Ends all calls and sessions, also those to come, with `status`.
  void End(const absl::Status& status, absl::Time now);

  Core& core_;
  const HandlersOptions options_;
  const absl::Time started_at_;
  HandlerCounts counts_;
  UnsavedChanges unsaved_;
  Waiters waiters_;
  SessionTable sessions_;
  WatcherTable watchers_;
  uint64_t seen_changes_ = 0;
  Term told_term_;  // what all sessions have been told, or are about to be
  absl::Time next_tick_;
  bool waiters_changed_core_ = false;
  absl::Status ended_;  // OK while it serves; else what every call is told
};

}  // namespace moonpool::master
