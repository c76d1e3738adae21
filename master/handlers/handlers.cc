#include "master/handlers/handlers.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/handlers/request_views.h"
#include "master/handlers/wire.h"

namespace moonpool::master {

absl::Status ShuttingDown() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown,
                   "the master is shutting down", {.hint = "retry at the next master"});
}

Handlers::Handlers(Core& core, const HandlersOptions& options, absl::Time now)
    : core_(core),
      options_(options),
      started_at_(now),
      unsaved_(options_, counts_),
      waiters_(options_, counts_),
      sessions_(options_, counts_, unsaved_),
      watchers_(core_, options_, counts_),
      seen_changes_(core.change_count()),
      next_tick_(now + options_.tick_interval) {}

Handlers::~Handlers() {
  MP_CHECK(sessions_.size() == 0, "sessions outlive their handlers", sessions_.size());
}

absl::Status Handlers::AdmitVersion(const v1::Version& version) {
  if (!ended_.ok()) return ended_;
  absl::Status status = CheckVersion(version);
  if (!status.ok()) ++counts_.bad_requests;
  return status;
}

absl::Status Handlers::Admit(const v1::RequestHeader& header, int batch) {
  if (!ended_.ok()) return ended_;
  absl::Status status = CheckHeader(header);
  if (status.ok()) status = CheckBatch(batch);
  if (!status.ok()) ++counts_.bad_requests;
  return status;
}

absl::Status Handlers::Admit(const RequestView& request, int batch) {
  if (!ended_.ok()) return ended_;
  if (!request.status().ok()) ++counts_.bad_requests;
  RETURN_IF_ERROR(request.status());
  return Admit(request.header(), batch);
}

absl::Time Handlers::AnswerBy(const v1::RequestHeader& header, absl::Time now) const {
  // A little before the caller gives up, so that it learns the reason and not just the time.
  const absl::Duration timeout = header.timeout_ms() == 0
                                     ? options_.max_wait
                                     : std::min(options_.max_wait, FromWireMs(header.timeout_ms()));
  return now + timeout - std::min(timeout / 10, absl::Milliseconds(50));
}

void Handlers::Cancel(CallId call, absl::Time now) {
  if (call.value == 0) return;
  waiters_.Cancel(call,
                  MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller,
                            "the caller has gone"),
                  now);
  Settle(now);
}

absl::StatusOr<std::unique_ptr<NodeSession>> Handlers::OpenSession(NodeSession::OnReady on_ready,
                                                                   absl::Time now) {
  if (!ended_.ok()) return ended_;
  if (sessions_.full()) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     "too many node sessions are open",
                     {.hint = "raise the master's --limit-sessions"});
  }
  return std::make_unique<NodeSession>(core_, sessions_, std::move(on_ready), now);
}

void Handlers::OnNodeMessage(NodeSession& session, const v1::NodeMessage& message, absl::Time now) {
  session.OnMessage(message, now);
  Settle(now);
}

void Handlers::CloseSession(NodeSession& session, absl::Time now) {
  session.Close(now);
  Settle(now);
}

absl::StatusOr<std::unique_ptr<Watcher>> Handlers::Watch(const v1::WatchRequest& request,
                                                         Watcher::OnReady on_ready,
                                                         absl::Time now) {
  RETURN_IF_ERROR(AdmitVersion(request.version()));
  RETURN_IF_ERROR(CheckLength("namespace", request.namespace_(), kMaxNamespaceBytes));
  EventCursorOptions options{.name_space = request.namespace_(),
                             .is_live_only = request.live_only()};
  if (request.has_resume()) {
    options.resume =
        EventToken{.log = request.resume().log(), .sequence = request.resume().sequence()};
  }
  return watchers_.Open(std::move(options), std::move(on_ready), now);
}

CallId Handlers::AnswerWhenSaved(ChangeNumber number, absl::Time deadline, absl::Time now,
                                 WaitingForSave::Answer answer) {
  auto waiter = std::make_unique<WaitingForSave>(unsaved_, number, std::move(answer));
  const Waiter::Progress progress = waiter->Retry(now);
  if (progress == Waiter::Progress::kDone) return {};
  if (waiters_.full()) {
    ++counts_.waits_refused;
    waiter->Fail(TooManyWaiters(), now);
    return {};
  }
  return waiters_.Add(std::move(waiter), progress, deadline);
}

void Handlers::OnWritten(const absl::Status& status, absl::Time now) {
  unsaved_.OnWritten(status, now);
  if (unsaved_.is_deposed()) return End(unsaved_.deposed(), now);
  core_.Saved(unsaved_.saved());
  sessions_.FinishRegistrations(now);
  waiters_.MarkChanged();
  Settle(now);
  RetryWaiters(Waiters::Occasion::kCall, now);
}

void Handlers::Settle(absl::Time now) {
  if (core_.term() != told_term_ && unsaved_.IsSaved(core_.term_saved_by())) {
    told_term_ = core_.term();
    sessions_.TellTerm();
  }
  bool is_changed = SendEffects(now);
  if (core_.change_count() != seen_changes_) is_changed = true;
  seen_changes_ = core_.change_count();
  if (!is_changed) return;
  waiters_.MarkChanged();
  RetryWaiters(Waiters::Occasion::kCall, now);
}

bool Handlers::SendEffects(absl::Time now) {
  const Effects effects = core_.TakeEffects();
  for (const FreeCommand& command : effects.frees) sessions_.Route(command);
  for (const CopyCommand& command : effects.copies) sessions_.Route(command);
  for (const NodeId node : effects.to_register) sessions_.RegisterAnew(node, now);
  unsaved_.Add(effects.unsaved);
  return !effects.removes_done.empty();
}

void Handlers::RetryWaiters(Waiters::Occasion occasion, absl::Time now) {
  if (!waiters_.pump_pending()) return;
  waiters_.Pump(occasion, now);
  if (SendEffects(now)) waiters_.MarkChanged();
  // What the waiters changed themselves (they evict) concerns them again, but only from the next
  // tick on: a call that changes something at each try must not be tried without end.
  if (core_.change_count() != seen_changes_) waiters_changed_core_ = true;
  seen_changes_ = core_.change_count();
}

void Handlers::Tick(absl::Time now) {
  if (!ended_.ok()) {
    // Nobody sees the core again, which may be large. Its sessions have a last message to send, and
    // a deadline for it.
    sessions_.Tick(now);
    next_tick_ = now + options_.tick_interval;
    return;
  }
  const bool has_more = core_.Tick(now);
  sessions_.Tick(now);
  watchers_.Tick(now);
  waiters_.ExpireDue(now);
  if (SendEffects(now) || core_.change_count() != seen_changes_ ||
      std::exchange(waiters_changed_core_, false)) {
    waiters_.MarkChanged();
  }
  seen_changes_ = core_.change_count();
  RetryWaiters(Waiters::Occasion::kTick, now);
  next_tick_ = has_more ? now : now + options_.tick_interval;
}

absl::Time Handlers::NextWakeup() const {
  if (!ended_.ok()) return next_tick_;
  if (waiters_.pump_pending()) return absl::InfinitePast();
  return std::min({next_tick_, waiters_.earliest_deadline(), unsaved_.next_try()});
}

void Handlers::Shutdown(absl::Time now) { End(ShuttingDown(), now); }

void Handlers::Depose(const absl::Status& not_leader, absl::Time now) {
  sessions_.RefuseAll(not_leader, now);
  End(not_leader, now);
}

void Handlers::FallSilent(const absl::Status& not_leader, absl::Time now) {
  sessions_.SetSilent(true);
  watchers_.EndAll(not_leader);  // with its token each may go on, here or elsewhere
  waiters_.FailAll(not_leader, now);
  SendEffects(now);
}

void Handlers::Resume() { sessions_.SetSilent(false); }

void Handlers::RefuseSessions(const absl::Status& not_leader, absl::Time now) {
  sessions_.RefuseAll(not_leader, now);
  Settle(now);
}

void Handlers::End(const absl::Status& status, absl::Time now) {
  if (ended_.ok()) ended_ = status;
  waiters_.FailAll(status, now);
  sessions_.EndAll(status, now);
  watchers_.EndAll(status);
  SendEffects(now);
}

}  // namespace moonpool::master
