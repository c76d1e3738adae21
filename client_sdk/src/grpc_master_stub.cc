#include "client_sdk/src/grpc_master_stub.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/grpc/unreachable.h"

namespace moonpool::client {
namespace {

// A master that is passed over after less would be one that is only busy.
constexpr absl::Duration kSilenceMin = absl::Milliseconds(50);
// The same for one that was silent a moment ago: it has to show that it is there again.
constexpr absl::Duration kSilenceWhenSilent = absl::Milliseconds(100);
// Both ends time a call. A master's end of it may come sooner by so much, and reads CANCELLED.
constexpr absl::Duration kTimersApart = absl::Milliseconds(10);

// On gRPC's own monotonic clock: ours has another zero.
gpr_timespec DeadlineOf(const CallContext& context, const Clock& clock) {
  const absl::Duration remaining =
      std::clamp(context.Remaining(clock), absl::ZeroDuration(), absl::Hours(24));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(absl::ToInt64Microseconds(remaining), GPR_TIMESPAN));
}

// The queue of one call.
class CallQueue {
 public:
  grpc::CompletionQueue* queue() { return &queue_; }

  // True: the call has ended. False: not by then.
  bool IsFinished(absl::Duration within) {
    if (within == absl::InfiniteDuration()) {
      return IsFinishedBy(gpr_inf_future(GPR_CLOCK_MONOTONIC));
    }
    const gpr_timespec wait = gpr_time_from_micros(absl::ToInt64Microseconds(within), GPR_TIMESPAN);
    return IsFinishedBy(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), wait));
  }
  // Looks at the socket and does not wait. (For what is less than a millisecond away gRPC sleeps.)
  bool IsFinishedNow() { return IsFinishedBy(gpr_time_0(GPR_CLOCK_MONOTONIC)); }

  // Once it has: what gRPC does not say in a status of OK.
  bool has_readable_answer() const { return is_ok_; }

  void Shutdown() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool is_ok = false;
    while (queue_.Next(&tag, &is_ok)) {
    }
  }

 private:
  bool IsFinishedBy(gpr_timespec until) {
    void* tag = nullptr;
    return queue_.AsyncNext(&tag, &is_ok_, until) != grpc::CompletionQueue::TIMEOUT;
  }

  grpc::CompletionQueue queue_;
  bool is_ok_ = true;
};

template <typename Response, typename Method, typename Request>
std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> Start(Method method,
                                                                 const MasterLines::Lease& line,
                                                                 grpc::ClientContext* rpc,
                                                                 const Request& request,
                                                                 grpc::CompletionQueue* queue) {
  if constexpr (std::is_invocable_v<Method, PlaceCalls&, grpc::ClientContext*, const Request&,
                                    grpc::CompletionQueue*>) {
    return (line.places().*method)(rpc, request, queue);
  } else {
    return (line.stub().*method)(rpc, request, queue);
  }
}

// Another master would say the same, or there is no time to ask one.
bool IsFinal(const absl::Status& answer) {
  if (absl::IsUnavailable(answer)) return IsAnswerOfLeader(answer);
  return ReasonOf(answer) != ErrorReason::kNotLeader;
}

// Says nothing of who leads.
bool IsEndOfCall(const absl::Status& failure) {
  return absl::IsDeadlineExceeded(failure) || absl::IsCancelled(failure);
}

absl::Status Silent(absl::string_view address, absl::Duration silence) {
  return MakeError(
      absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
      absl::StrCat("master ", address, ": no sign of life within ", absl::FormatDuration(silence)),
      {.hint = "is moonpool-master stopped or overloaded there?"});
}

}  // namespace

// One call's way to the leader. What it finds out is for all calls, at once and in the order in
// which it happens: one that began long ago has no old stories to tell when it ends.
class GrpcMasterStub::Round {
 public:
  explicit Round(GrpcMasterStub& stub) : stub_(stub), choice_(stub.Known()) {
    choice_.StartRound();
  }

  bool is_over() const { return choice_.is_round_over(); }
  size_t size() const { return choice_.size(); }
  // To be asked still. Of addresses that were learnt in this call there may have been more.
  size_t left() const { return size() > tried_.size() ? size() - tried_.size() : 1; }

  LeaderChoice::Step Next(absl::Time now) {
    const LeaderChoice::Step step = choice_.Next(now);
    address_ = step.address;
    return step;
  }

  // What came of it.
  void OnLeader() {
    if (tried_.empty()) return;  // it was the first to be asked, and will be
    Share([&](LeaderChoice& known) { known.NoteLeader(address_); });
  }
  void OnFollower(absl::string_view leader, absl::Time now) {
    tried_.push_back(absl::StrCat(address_, " (follows)"));
    has_follower_ = true;
    choice_.OnNotLeader(leader, now);
    Share([&](LeaderChoice& known) { known.NoteFollower(address_); });
  }
  void OnSilent(absl::Duration silence, absl::Time now) {
    tried_.push_back(absl::StrCat(address_, " (no sign of life)"));
    failure_ = Silent(address_, silence);
    NoteSilent(now);
  }
  // `is_late`: it took as long as a silence.
  void OnUnavailable(const absl::Status& why, bool is_late, absl::Time now) {
    if (DetailOf(why).has_value()) {  // it answered, and is about to go
      tried_.push_back(absl::StrCat(address_, " (shuts down)"));
      failure_ = why;
      return NoteUnreachable(now);
    }
    tried_.push_back(DescribeUnreachable(address_, why.message()));
    failure_ = NoMasterAnswers(tried_);
    if (is_late) return NoteSilent(now);  // nothing came of an attempt to connect
    NoteUnreachable(now);
  }

  // When all were asked.
  absl::Status Outcome() const { return has_follower_ ? NoMasterLeads(tried_) : failure_; }

 private:
  void NoteSilent(absl::Time now) {
    choice_.OnSilent(now);
    Share([&](LeaderChoice& known) { known.NoteSilent(address_, now); });
  }
  void NoteUnreachable(absl::Time now) {
    choice_.OnUnreachable(now);
    Share([&](LeaderChoice& known) { known.NoteUnreachable(address_); });
  }
  void Share(absl::FunctionRef<void(LeaderChoice&)> note) {
    absl::MutexLock lock(&stub_.mutex_);
    note(stub_.choice_);
  }

  GrpcMasterStub& stub_;
  LeaderChoice choice_;
  std::string address_;             // of the one that is asked
  std::vector<std::string> tried_;  // and what came of each, the leader aside
  absl::Status failure_;
  bool has_follower_ = false;
};

GrpcMasterStub::GrpcMasterStub(const std::vector<std::string>& addresses, const Clock& clock,
                               const Options& options)
    : clock_(clock),
      options_(options),
      choice_(addresses,
              {.patience = options.silence_max,
               .patience_max = options.silence_max,
               .patience_when_silent = std::min(options.silence_max, kSilenceWhenSilent)},
              // Pauses are the caller's.
              Random(0)) {}

GrpcMasterStub::~GrpcMasterStub() = default;

LeaderChoice GrpcMasterStub::Known() const {
  absl::ReaderMutexLock lock(&mutex_);
  return choice_;
}

std::shared_ptr<MasterLines> GrpcMasterStub::MasterAt(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<MasterLines>& master = masters_[address];
  if (master != nullptr) return master;
  master = std::make_shared<MasterLines>(address);
  const std::shared_ptr<MasterLines> made = master;
  absl::erase_if(masters_, [&](const auto& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return known.first != address && !choice_.Knows(known.first);
  });
  return made;
}

template <typename Response, typename Method, typename Request>
absl::StatusOr<Response> GrpcMasterStub::Call(Method method, const Request& request,
                                              const CallContext& context) {
  Round round(*this);
  while (!round.is_over()) {
    const LeaderChoice::Step step = round.Next(clock_.Now());
    const std::shared_ptr<MasterLines> master = MasterAt(step.address);
    const absl::Duration silence = SilenceFor(round, step.patience, context);
    Response response;
    const absl::Time begun = clock_.Now();
    const std::optional<grpc::Status> status =
        Try(method, *master, request, context, silence, &response);
    const absl::Time now = clock_.Now();
    if (!status.has_value()) {
      round.OnSilent(2 * silence, now);
      continue;
    }
    const absl::Status answer =
        status->ok() ? absl::OkStatus() : Explain(*status, step.address, context);
    if (IsFinal(answer)) {
      if (!IsEndOfCall(answer)) round.OnLeader();
      if (answer.ok()) return response;
      return answer;
    }
    if (ReasonOf(answer) == ErrorReason::kNotLeader) {
      round.OnFollower(DetailOf(answer)->leader, now);
    } else {
      round.OnUnavailable(answer, /*is_late=*/now - begun >= silence, now);
    }
  }
  return round.Outcome();
}

absl::Duration GrpcMasterStub::SilenceFor(const Round& round, absl::Duration patience,
                                          const CallContext& context) const {
  if (round.size() == 1 && options_.waits_for_lone_master) return absl::InfiniteDuration();
  const absl::Duration share = context.Remaining(clock_) / (2 * static_cast<int64_t>(round.left()));
  return std::min(std::max(share, kSilenceMin), patience);
}

template <typename Response, typename Method, typename Request>
std::optional<grpc::Status> GrpcMasterStub::Try(Method method, MasterLines& master,
                                                const Request& request, const CallContext& context,
                                                absl::Duration silence, Response* response) const {
  const MasterLines::Lease line = master.Take();
  grpc::ClientContext rpc;
  rpc.set_deadline(DeadlineOf(context, clock_));
  CallQueue queue;
  grpc::Status status;
  bool is_silent = false;
  {
    const CancelCallback on_cancel = context.cancel.OnCancel([&rpc] { rpc.TryCancel(); });
    const auto reader = Start<Response>(method, line, &rpc, request, queue.queue());
    reader->Finish(response, &status, &rpc);
    const auto look = [&queue] { return queue.IsFinishedNow(); };
    bool is_finished = spin_.Try(clock_, context.deadline, look);
    while (!is_finished && !(is_finished = queue.IsFinished(silence))) {
      if (is_silent || IsThere(line, request.header(), context, silence)) continue;
      is_silent = true;
      rpc.TryCancel();  // which ends it soon
    }
  }
  const bool is_readable = queue.has_readable_answer();
  queue.Shutdown();
  if (status.ok() && !is_readable) {
    status = grpc::Status(grpc::StatusCode::INTERNAL, "what was answered cannot be read");
  }
  // It may have answered at the last moment.
  if (is_silent && !status.ok() && !context.cancel.cancelled()) return std::nullopt;
  return status;
}

bool GrpcMasterStub::IsThere(const MasterLines::Lease& line, const v1::RequestHeader& header,
                             const CallContext& context, absl::Duration silence) const {
  // The call itself ends by its deadline.
  if (!context.Check(clock_).ok()) return true;
  grpc::ClientContext rpc;
  rpc.set_deadline(DeadlineOf(
      {.deadline = std::min(context.deadline, clock_.Now() + silence), .cancel = {}}, clock_));
  const CancelCallback on_cancel = context.cancel.OnCancel([&rpc] { rpc.TryCancel(); });
  v1::ExistsRequest request;
  *request.mutable_header() = header;
  request.mutable_header()->clear_touched();
  v1::ExistsResponse response;
  const grpc::Status status = line.stub().Exists(&rpc, request, &response);
  return status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
         status.error_code() != grpc::StatusCode::UNAVAILABLE;
}

absl::Status GrpcMasterStub::Explain(const grpc::Status& status, absl::string_view address,
                                     const CallContext& context) const {
  if (context.cancel.cancelled()) return context.Check(clock_);
  absl::Status failure = FromGrpcNotCancelled(status);
  if (DetailOf(failure).has_value()) return failure;
  if (status.error_code() == grpc::StatusCode::CANCELLED &&
      context.Remaining(clock_) <= kTimersApart) {
    failure = absl::DeadlineExceededError("");
  }
  // What answers there does not speak as a master does; others may.
  if (absl::IsInternal(failure)) failure = absl::UnavailableError(failure.message());
  if (absl::IsUnavailable(failure)) return failure;  // the caller knows who else was tried
  if (absl::IsDeadlineExceeded(failure)) {
    failure = MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                        "no answer in time", {.hint = "raise the timeout or retry"});
  }
  return Annotate(failure, absl::StrCat("master ", address));
}

absl::StatusOr<v1::OpenNamespaceResponse> GrpcMasterStub::OpenNamespace(
    const v1::OpenNamespaceRequest& request, const CallContext& context) {
  return Call<v1::OpenNamespaceResponse>(&Stub::AsyncOpenNamespace, request, context);
}
absl::StatusOr<StartPutsAnswer> GrpcMasterStub::StartPuts(const v1::StartPutsRequest& request,
                                                          const CallContext& context) {
  return Call<StartPutsAnswer>(&PlaceCalls::AsyncStartPuts, request, context);
}
absl::StatusOr<CommitPutsAnswer> GrpcMasterStub::CommitPuts(const v1::CommitPutsRequest& request,
                                                            const CallContext& context) {
  return Call<CommitPutsAnswer>(&PlaceCalls::AsyncCommitPuts, request, context);
}
absl::StatusOr<v1::AbortPutsResponse> GrpcMasterStub::AbortPuts(const v1::AbortPutsRequest& request,
                                                                const CallContext& context) {
  return Call<v1::AbortPutsResponse>(&Stub::AsyncAbortPuts, request, context);
}
absl::StatusOr<LocateAnswer> GrpcMasterStub::Locate(const v1::LocateRequest& request,
                                                    const CallContext& context) {
  return Call<LocateAnswer>(&PlaceCalls::AsyncLocate, request, context);
}
absl::StatusOr<MatchPrefixAnswer> GrpcMasterStub::MatchPrefix(const v1::MatchPrefixRequest& request,
                                                              const CallContext& context) {
  return Call<MatchPrefixAnswer>(&PlaceCalls::AsyncMatchPrefix, request, context);
}
absl::StatusOr<v1::ExistsResponse> GrpcMasterStub::Exists(const v1::ExistsRequest& request,
                                                          const CallContext& context) {
  return Call<v1::ExistsResponse>(&Stub::AsyncExists, request, context);
}
absl::StatusOr<v1::RemoveResponse> GrpcMasterStub::Remove(const v1::RemoveRequest& request,
                                                          const CallContext& context) {
  return Call<v1::RemoveResponse>(&Stub::AsyncRemove, request, context);
}
absl::StatusOr<v1::ListObjectsResponse> GrpcMasterStub::ListObjects(
    const v1::ListObjectsRequest& request, const CallContext& context) {
  return Call<v1::ListObjectsResponse>(&Stub::AsyncListObjects, request, context);
}

}  // namespace moonpool::client
