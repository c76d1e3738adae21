#include "cli/master_link/master_link.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/grpc/unreachable.h"
#include "common/rpc/leader_choice.h"
#include "common/version.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::cli {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;  // a page of 10000 objects with long keys

// With several masters: until one is silent, and while it was so a moment ago.
constexpr absl::Duration kPatience = absl::Seconds(2);
constexpr absl::Duration kPatienceWhenSilent = absl::Milliseconds(300);
constexpr int kReconnectMs = 100;

void SetVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

}  // namespace

absl::Status WithNoMasterHint(const absl::Status& status) {
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail());
  absl::StrAppend(
      &detail.hint, detail.hint.empty() ? "" : " else ",
      "start a local cluster with `moonpool dev` and take the address it prints, or say "
      "where the master is with --master HOST:PORT");
  return WithDetail(status, detail);
}

namespace {

// One call's way to the leader.
class Round {
 public:
  explicit Round(const LeaderChoice& known) : choice_(known) { Start(); }

  void Start() {
    choice_.StartRound();
    tried_.clear();
    refusal_ = absl::OkStatus();
    has_follower_ = false;
  }
  LeaderChoice& choice() { return choice_; }
  // Somebody was there: another master leads soon.
  bool has_follower() const { return has_follower_; }

  // What the master at `address` has answered; false: it is the call's outcome. `is_cut_off`: the
  // call could have taken longer.
  bool Take(const absl::Status& status, const std::string& address, bool is_cut_off,
            absl::Time now) {
    if (IsAnswerOfLeader(status)) return false;
    if (ReasonOf(status) == ErrorReason::kNotLeader) {
      has_follower_ = true;
      tried_.push_back(absl::StrCat(address, " (follows)"));
      choice_.OnNotLeader(DetailOf(status)->leader, now);
    } else if (absl::IsUnavailable(status)) {
      if (ReasonOf(status) != ErrorReason::kUnspecified) refusal_ = status;
      tried_.push_back(DescribeUnreachable(address, status.message()));
      choice_.OnUnreachable(now);
    } else if (absl::IsDeadlineExceeded(status) && is_cut_off) {
      tried_.push_back(absl::StrCat(address, " (no sign of life)"));
      choice_.OnSilent(now);
    } else {
      return false;
    }
    return true;
  }

  // When all were asked. gRPC's own words for a master that cannot be reached help nobody; those of
  // one that shuts down pass as they are.
  absl::Status Outcome() const {
    if (has_follower_) return NoMasterLeads(tried_);
    if (!refusal_.ok()) return refusal_;
    return WithNoMasterHint(NoMasterAnswers(tried_));
  }

 private:
  LeaderChoice choice_;
  std::vector<std::string> tried_;
  absl::Status refusal_;
  bool has_follower_ = false;
};

}  // namespace

struct MasterLink::Rep {
  Rep(std::vector<std::string> addresses, absl::Duration call_timeout)
      : masters(std::move(addresses)),
        timeout(call_timeout),
        choice(masters,
               {.patience = kPatience,
                .patience_max = call_timeout,
                .patience_when_silent = kPatienceWhenSilent},
               Random(EntropySeed())) {}

  template <typename Service, typename Request, typename Response>
  absl::StatusOr<Response> Call(const Request& request,
                                grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*));
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& master);
  absl::Status Explain(const absl::Status& failure) const;

  const std::vector<std::string> masters;
  const absl::Duration timeout;
  const SteadyClock clock;
  absl::Mutex mutex;
  LeaderChoice choice ABSL_GUARDED_BY(mutex);
  std::string leader ABSL_GUARDED_BY(mutex);
  // To all that were ever asked: a command is over soon.
  absl::flat_hash_map<std::string, std::shared_ptr<grpc::Channel>> channels ABSL_GUARDED_BY(mutex);
};

MasterLink::MasterLink(std::vector<std::string> masters, absl::Duration timeout)
    : rep_(new Rep(std::move(masters), timeout)) {}

MasterLink::~MasterLink() = default;

std::string MasterLink::leader() const {
  absl::MutexLock lock(&rep_->mutex);
  return rep_->leader;
}

std::shared_ptr<grpc::Channel> MasterLink::Rep::ChannelTo(const std::string& master) {
  absl::MutexLock lock(&mutex);
  std::shared_ptr<grpc::Channel>& channel = channels[master];
  if (channel == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
    channel = grpc::CreateCustomChannel(master, grpc::InsecureChannelCredentials(), arguments);
  }
  return channel;
}

template <typename Service, typename Request, typename Response>
absl::StatusOr<Response> MasterLink::Rep::Call(
    const Request& request,
    grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
  const absl::Time deadline = clock.Now() + timeout;
  mutex.Lock();
  Round round(choice);
  mutex.Unlock();
  absl::Status last_round;  // what it came to
  while (true) {
    const LeaderChoice::Step step = round.choice().Next(clock.Now());
    if (step.address.empty()) {
      if (!round.has_follower() || step.at >= deadline) return round.Outcome();
      absl::SleepFor(step.at - clock.Now());
      last_round = round.Outcome();
      round.Start();
      continue;
    }
    const absl::Duration left = deadline - clock.Now();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(std::min(left, step.patience)));
    Response response;
    typename Service::Stub stub(ChannelTo(step.address));
    const absl::Status status = FromGrpcNotCancelled((stub.*method)(&context, request, &response));
    if (status.ok()) {
      round.choice().OnLeader();
      absl::MutexLock lock(&mutex);
      choice = round.choice();
      leader = step.address;
      return response;
    }
    if (round.Take(status, step.address, step.patience < left, clock.Now())) continue;
    // When time ends before anybody has answered in a round, the one before it knows more.
    const bool is_unheard = absl::IsDeadlineExceeded(status) && !round.has_follower();
    return is_unheard && !last_round.ok() ? last_round : Explain(status);
  }
}

absl::Status MasterLink::Rep::Explain(const absl::Status& failure) const {
  if (ReasonOf(failure) != ErrorReason::kUnspecified || !absl::IsDeadlineExceeded(failure)) {
    return failure;
  }
  return MakeError(failure.code(), ErrorReason::kDeadline,
                   absl::StrCat("no answer from the master at ", absl::StrJoin(masters, ", "),
                                " within ", absl::FormatDuration(timeout)),
                   {.hint = "is a moonpool-master listening there? raise --timeout if it is "
                            "only slow"});
}

absl::StatusOr<v1::GetStatusResponse> MasterLink::GetStatus() {
  v1::GetStatusRequest request;
  SetVersion(request.mutable_version());
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::GetStatus);
}

absl::StatusOr<v1::ListNodesResponse> MasterLink::ListNodes() {
  v1::ListNodesRequest request;
  SetVersion(request.mutable_version());
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::ListNodes);
}

absl::StatusOr<v1::WhyResponse> MasterLink::Why(absl::string_view name_space,
                                                absl::string_view key) {
  v1::WhyRequest request;
  SetVersion(request.mutable_version());
  request.set_namespace_(std::string(name_space));
  request.set_key(std::string(key));
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::Why);
}

absl::Status MasterLink::ForgetNode(absl::string_view name) {
  v1::ForgetNodeRequest request;
  SetVersion(request.mutable_version());
  request.set_name(std::string(name));
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::ForgetNode).status();
}

absl::Status MasterLink::DrainNode(absl::string_view name, bool cancel) {
  v1::DrainNodeRequest request;
  SetVersion(request.mutable_version());
  request.set_name(std::string(name));
  request.set_cancel(cancel);
  return rep_->Call<v1::AdminService>(request, &v1::AdminService::Stub::DrainNode).status();
}

absl::StatusOr<v1::ListObjectsResponse> MasterLink::ListObjects(absl::string_view name_space,
                                                                absl::string_view prefix,
                                                                absl::string_view page_token,
                                                                uint32_t limit) {
  v1::ListObjectsRequest request;
  SetVersion(request.mutable_header()->mutable_version());
  request.mutable_header()->set_namespace_(std::string(name_space));
  request.mutable_header()->set_timeout_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(rep_->timeout)));
  request.set_prefix(std::string(prefix));
  request.set_page_token(std::string(page_token));
  request.set_limit(limit);
  return rep_->Call<v1::MasterService>(request, &v1::MasterService::Stub::ListObjects);
}

}  // namespace moonpool::cli
