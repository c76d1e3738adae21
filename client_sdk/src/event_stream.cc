// EventStream over gRPC.
#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_sdk/src/client_waiter.h"
#include "client_sdk/src/master_channel.h"
#include "common/call_context.h"
#include "common/config/host_port.h"
#include "common/random.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/grpc/unreachable.h"
#include "common/rpc/leader_choice.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "moonpool/events.h"
#include "moonpool/v1/events.grpc.pb.h"

namespace moonpool {
namespace {

// So many heartbeats that do not come make a silence, and no less than this.
constexpr int kHeartbeatsMissed = 4;
constexpr absl::Duration kSilenceMin = absl::Seconds(2);

EventReset FromProto(v1::EventReset reset) {
  switch (reset) {
    case v1::EVENT_RESET_UNSPECIFIED: return EventReset::kNone;
    case v1::RESET_TOO_OLD: return EventReset::kTooOld;
    case v1::RESET_OTHER_LOG: return EventReset::kOtherLog;
    case v1::RESET_TOO_SLOW: return EventReset::kTooSlow;
    default: return EventReset::kStart;
  }
}

// nullopt: of a kind that this release does not know.
std::optional<EventKind> FromProto(v1::EventKind kind) {
  switch (kind) {
    case v1::EVENT_STORED: return EventKind::kStored;
    case v1::EVENT_REMOVED: return EventKind::kRemoved;
    case v1::EVENT_CLEARED: return EventKind::kCleared;
    default: return std::nullopt;
  }
}

EventBatch FromProto(v1::EventBatch&& batch) {
  EventBatch out{.reset = FromProto(batch.reset()), .is_whole = batch.whole()};
  out.events.reserve(static_cast<size_t>(batch.events_size()));
  for (v1::Event& event : *batch.mutable_events()) {
    const std::optional<EventKind> kind = FromProto(event.kind());
    if (!kind.has_value()) continue;
    Event& to = out.events.emplace_back();
    to.kind = *kind;
    to.sequence = event.sequence();
    to.name_space = std::move(*event.mutable_namespace_());
    to.key = std::move(*event.mutable_key());
    to.parent = std::move(*event.mutable_parent());
    to.size_bytes = event.size_bytes();
    to.generation = event.generation();
    to.reason = ReasonFromNumber(event.reason());
    for (v1::EventPlace& place : *event.mutable_places()) {
      to.places.push_back({std::move(*place.mutable_node()), std::move(*place.mutable_medium())});
    }
  }
  if (batch.has_token()) {
    out.token = EventToken{.term = batch.token().term(),
                           .log = batch.token().log(),
                           .sequence = batch.token().sequence()};
  }
  return out;
}

// One call of Watch. On one thread, one step at a time.
class Call {
 public:
  enum class Read { kBatch, kEnd, kSilence };

  Call(const std::string& address, const v1::WatchRequest& request)
      : stub_(v1::EventService::NewStub(client::ConnectToMaster(address))),
        reader_(stub_->PrepareAsyncWatch(&context_, request, &queue_)) {}
  ~Call() {
    if (!is_over_) Cancel().IgnoreError();
    queue_.Shutdown();
    Await(absl::InfiniteDuration());
  }

  grpc::ClientContext& context() { return context_; }

  // kEnd: see End. kSilence: it is of no use any more.
  Read Next(v1::EventBatch* batch, absl::Duration silence) {
    if (!std::exchange(is_started_, true)) {
      reader_->StartCall(this);
      const Read started = Await(silence);
      if (started != Read::kBatch) return started;
    }
    reader_->Read(batch, this);
    return Await(silence);
  }
  // What the master has said last.
  absl::Status End() {
    is_over_ = true;
    grpc::Status status;
    reader_->Finish(&status, this);
    Await(absl::InfiniteDuration());
    return FromGrpc(status);
  }
  absl::Status Cancel() {
    context_.TryCancel();
    if (is_waiting_) Await(absl::InfiniteDuration());
    if (!is_started_) {
      is_over_ = true;
      return absl::CancelledError();
    }
    return End();
  }

 private:
  Read Await(absl::Duration within) {
    is_waiting_ = true;
    void* tag = nullptr;
    bool ok = false;
    const gpr_timespec until =
        within == absl::InfiniteDuration()
            ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
            : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                           gpr_time_from_micros(absl::ToInt64Microseconds(within), GPR_TIMESPAN));
    const auto next = queue_.AsyncNext(&tag, &ok, until);
    if (next == grpc::CompletionQueue::TIMEOUT) return Read::kSilence;
    is_waiting_ = false;
    return ok ? Read::kBatch : Read::kEnd;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  const std::unique_ptr<v1::EventService::Stub> stub_;
  const std::unique_ptr<grpc::ClientAsyncReader<v1::EventBatch>> reader_;
  bool is_started_ = false;
  bool is_waiting_ = false;  // for the step under way
  bool is_over_ = false;
};

}  // namespace

struct EventStream::Rep {
  explicit Rep(EventStreamOptions given)
      : options(std::move(given)),
        choice(options.masters, {}, Random(EntropySeed())),
        token(options.resume) {}

  // What is to be done after one stream.
  struct Outcome {
    bool is_final = true;
    absl::Status status = {};
  };
  v1::WatchRequest Request() const;
  Outcome Follow(const LeaderChoice::Step& step,
                 const std::function<bool(const EventBatch&)>& on_batch, const CancelToken& cancel);
  // Whether another master, or another try, may bring more.
  Outcome Judge(const std::string& address, const absl::Status& status, bool has_served);
  absl::Status NobodyServes() const;

  const EventStreamOptions options;
  const SteadyClock clock;
  LeaderChoice choice;
  std::optional<EventToken> token;
  std::vector<std::string> tried;  // in this round
  bool has_follower = false;       // one of them
  absl::Time served_at = absl::InfinitePast();
};

v1::WatchRequest EventStream::Rep::Request() const {
  v1::WatchRequest request;
  request.mutable_version()->set_major(kWireMajor);
  request.mutable_version()->set_minor(kWireMinor);
  request.set_namespace_(options.name_space);
  request.set_live_only(options.live_only);
  if (token.has_value()) {
    request.mutable_resume()->set_term(token->term);
    request.mutable_resume()->set_log(token->log);
    request.mutable_resume()->set_sequence(token->sequence);
  }
  return request;
}

EventStream::Rep::Outcome EventStream::Rep::Follow(
    const LeaderChoice::Step& step, const std::function<bool(const EventBatch&)>& on_batch,
    const CancelToken& cancel) {
  Call call(step.address, Request());
  const CancelCallback on_cancel = cancel.OnCancel([&] { call.context().TryCancel(); });
  absl::Duration silence = step.patience;
  bool has_served = false;
  while (true) {
    v1::EventBatch received;
    const Call::Read read = call.Next(&received, silence);
    if (cancel.cancelled()) return {.status = CallContext{.cancel = cancel}.Check(clock)};
    if (read == Call::Read::kSilence) {
      tried.push_back(absl::StrCat(step.address, " (no sign of life)"));
      choice.OnSilent(clock.Now());
      return {.is_final = false};
    }
    if (read == Call::Read::kEnd) return Judge(step.address, call.End(), has_served);
    if (!std::exchange(has_served, true)) choice.OnLeader();
    served_at = clock.Now();
    tried.clear();
    has_follower = false;
    silence = std::max(kSilenceMin, kHeartbeatsMissed * absl::Milliseconds(static_cast<int64_t>(
                                                            received.heartbeat_interval_ms())));
    const EventBatch batch = FromProto(std::move(received));
    // Between a reset and the next whole batch there is none to go on from.
    token = batch.token;
    if (!on_batch(batch)) return {};
  }
}

EventStream::Rep::Outcome EventStream::Rep::Judge(const std::string& address,
                                                  const absl::Status& status, bool has_served) {
  const absl::Time now = clock.Now();
  if (ReasonOf(status) == ErrorReason::kNotLeader) {
    tried.push_back(absl::StrCat(address, " (follows)"));
    has_follower = true;
    choice.OnNotLeader(DetailOf(status)->leader, now);
    return {.is_final = false};
  }
  // A stream that was served is begun again whatever ended it: it was too slow, cut off, or its
  // master has gone.
  if (has_served || absl::IsUnavailable(status) || absl::IsCancelled(status)) {
    tried.push_back(DescribeUnreachable(address, status.message()));
    choice.OnUnreachable(now);
    return {.is_final = false};
  }
  return {.status = Annotate(status, absl::StrCat("master ", address))};
}

absl::Status EventStream::Rep::NobodyServes() const {
  return has_follower ? NoMasterLeads(tried) : NoMasterAnswers(tried);
}

absl::StatusOr<std::unique_ptr<EventStream>> EventStream::Open(EventStreamOptions options) {
  if (options.masters.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "no masters are named", {.hint = "name one: host:port"});
  }
  for (const std::string& master : options.masters) RETURN_IF_ERROR(ParseHostPort(master).status());
  return std::unique_ptr<EventStream>(new EventStream(std::make_unique<Rep>(std::move(options))));
}

EventStream::EventStream(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
EventStream::~EventStream() = default;

absl::Status EventStream::Run(const std::function<bool(const EventBatch&)>& on_batch,
                              const CancelToken& cancel) {
  Rep& rep = *rep_;
  rep.served_at = rep.clock.Now();
  client::ClientWaiter waiter(rep.clock);
  while (true) {
    RETURN_IF_ERROR((CallContext{.cancel = cancel}.Check(rep.clock)));
    const LeaderChoice::Step step = rep.choice.Next(rep.clock.Now());
    if (step.address.empty()) {
      if (rep.clock.Now() - rep.served_at >= rep.options.give_up_after) return rep.NobodyServes();
      waiter.Wait({}, {.deadline = step.at, .cancel = cancel});
      if (rep.clock.Now() >= step.at) {
        rep.tried.clear();
        rep.has_follower = false;
      }
      continue;
    }
    const Rep::Outcome outcome = rep.Follow(step, on_batch, cancel);
    if (outcome.is_final) return outcome.status;
  }
}

std::optional<EventToken> EventStream::token() const { return rep_->token; }

}  // namespace moonpool
