#include "tests/sim/sim_masters.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/rpc/leader_choice.h"

namespace moonpool::sim {
namespace {

// How long a caller takes to notice that its connection has ended.
constexpr absl::Duration kNoticeAfter = absl::Milliseconds(5);
// As in GrpcMasterStub.
constexpr absl::Duration kSilenceMax = absl::Milliseconds(500);
constexpr absl::Duration kSilenceMin = absl::Milliseconds(50);
constexpr absl::Duration kSilenceWhenSilent = absl::Milliseconds(100);
constexpr uint64_t kEtcdSalt = 0x65746364;

absl::Status Unreached() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   "master did not answer");
}

absl::Status NobodyLeads() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader, "no master leads");
}

// Of one object: replicas share no node, or both would be lost at once. "" or what is wrong.
std::string CheckReplicas(const ToldReplicas& replicas) {
  std::set<uint32_t> taken;
  for (const ToldReplica& replica : replicas) {
    std::set<uint32_t> own;
    for (const ToldPart& part : replica) own.insert(part.node_id);
    for (const uint32_t node : own) {
      if (!taken.insert(node).second) return absl::StrCat("two replicas are on node ", node);
    }
  }
  return "";
}

bool IsEndOfCall(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

SimMasters::SimMasters(Scheduler& scheduler, Network& network, int count,
                       SimMaster::Options options, Random random)
    : scheduler_(scheduler), network_(network) {
  if (count > 1) {
    etcd_ =
        std::make_unique<SimEtcd>(scheduler, network, Random(Random(random).Next() ^ kEtcdSalt));
  }
  for (int i = 0; i < count; ++i) {
    if (count > 1) {
      options.clock_offset = absl::Milliseconds(static_cast<int64_t>(random.Below(100'000'000)));
    }
    masters_.push_back(std::make_unique<SimMaster>(
        scheduler, network, etcd_.get(), count > 1 ? absl::StrCat("master-", i) : "master", options,
        count > 1 ? Random(random.Next()) : random));
  }
}

SimMaster* SimMasters::Find(const std::string& address) {
  const auto it = std::find_if(masters_.begin(), masters_.end(),
                               [&](const auto& master) { return master->address() == address; });
  return it == masters_.end() ? nullptr : it->get();
}

SimMaster* SimMasters::leader() {
  const auto it = std::find_if(masters_.begin(), masters_.end(),
                               [](const auto& master) { return master->leads(); });
  return it == masters_.end() ? nullptr : it->get();
}

std::vector<std::string> SimMasters::addresses() const {
  std::vector<std::string> addresses;
  for (const auto& master : masters_) addresses.push_back(master->address());
  return addresses;
}

void SimMasters::StopMetaFailures() {
  for (const auto& master : masters_) master->StopMetaFailures();
}

// Unary calls: there and back over the network, while the caller blocks in virtual time. What
// GrpcMasterStub does over gRPC.
class SimStub final : public client::MasterStub {
 public:
  SimStub(SimMasters& masters, std::string host, SimMasters::StubEvents events)
      : masters_(masters),
        scheduler_(masters.scheduler_),
        network_(masters.network_),
        host_(std::move(host)),
        events_(std::move(events)),
        choice_(masters.addresses(),
                {.patience = kSilenceMax,
                 .patience_max = kSilenceMax,
                 .patience_when_silent = kSilenceWhenSilent},
                Random(0)) {}

  template <typename Request, typename Response, typename Method>
  absl::StatusOr<Response> Call(const Request& request, const CallContext& context, Method method) {
    choice_.StartRound();
    bool has_follower = false;
    for (size_t asked = 0; !choice_.is_round_over(); ++asked) {
      const LeaderChoice::Step step = choice_.Next(scheduler_.Now());
      const std::optional<absl::StatusOr<Response>> answer = Try<Response>(
          *masters_.Find(step.address), request, context, method, SilenceFor(step, asked, context));
      if (!answer.has_value()) {
        choice_.OnSilent(scheduler_.Now());
        continue;
      }
      const absl::Status& status = answer->status();
      if (ReasonOf(status) == ErrorReason::kNotLeader) {
        has_follower = true;
        choice_.OnNotLeader(DetailOf(status)->leader, scheduler_.Now());
      } else if (absl::IsUnavailable(status)) {
        choice_.OnUnreachable(scheduler_.Now());
      } else {
        if (!IsEndOfCall(status)) choice_.OnLeader();
        return *answer;
      }
    }
    return has_follower ? NobodyLeads() : Unreached();
  }

  // What the handlers write, and mostly what they read, goes as bytes.
  template <typename Answer, typename Request, typename Argument, typename Response>
  absl::StatusOr<Answer> CallForPlaces(
      const Request& request, const CallContext& context,
      master::CallId (master::Handlers::*method)(const Argument&, absl::Time,
                                                 master::Done<Encoded<Response>>)) {
    return Read<Answer>(Call<Argument, Encoded<Response>>(Argument(request), context, method));
  }
  template <typename Answer, typename Request, typename Argument, typename Response>
  absl::StatusOr<Answer> CallForPlaces(
      const Request& request, const CallContext& context,
      void (master::Handlers::*method)(const Argument&, absl::Time,
                                       master::Done<Encoded<Response>>)) {
    return Read<Answer>(Call<Argument, Encoded<Response>>(Argument(request), context, method));
  }

  absl::StatusOr<v1::OpenNamespaceResponse> OpenNamespace(const v1::OpenNamespaceRequest& request,
                                                          const CallContext& context) override {
    return Call<v1::OpenNamespaceRequest, v1::OpenNamespaceResponse>(
        request, context, &master::Handlers::OpenNamespace);
  }
  absl::StatusOr<StartPutsAnswer> StartPuts(const v1::StartPutsRequest& request,
                                            const CallContext& context) override {
    events_.on_start();
    auto answer = CallForPlaces<StartPutsAnswer>(request, context, &master::Handlers::StartPuts);
    if (!answer.ok()) return answer;
    for (const StartPutsAnswer::Result& result : answer->results) {
      events_.on_nonsense(CheckReplicas(result.grant.replicas));
    }
    return answer;
  }
  absl::StatusOr<CommitPutsAnswer> CommitPuts(const v1::CommitPutsRequest& request,
                                              const CallContext& context) override {
    return AnswerOf<CommitPutsAnswer>(Call<v1::CommitPutsRequest, v1::CommitPutsResponse>(
        request, context, &master::Handlers::CommitPuts));
  }
  absl::StatusOr<v1::AbortPutsResponse> AbortPuts(const v1::AbortPutsRequest& request,
                                                  const CallContext& context) override {
    return Call<v1::AbortPutsRequest, v1::AbortPutsResponse>(request, context,
                                                             &master::Handlers::AbortPuts);
  }
  absl::StatusOr<LocateAnswer> Locate(const v1::LocateRequest& request,
                                      const CallContext& context) override {
    auto answer = CallForPlaces<LocateAnswer>(request, context, &master::Handlers::Locate);
    if (!answer.ok()) return answer;
    for (const LocateAnswer::Result& result : answer->results) {
      events_.on_nonsense(CheckReplicas(result.location.replicas));
    }
    return answer;
  }
  absl::StatusOr<MatchPrefixAnswer> MatchPrefix(const v1::MatchPrefixRequest& request,
                                                const CallContext& context) override {
    auto answer =
        CallForPlaces<MatchPrefixAnswer>(request, context, &master::Handlers::MatchPrefix);
    if (!answer.ok()) return answer;
    for (const ToldLocation& location : answer->locations) {
      events_.on_nonsense(CheckReplicas(location.replicas));
    }
    return answer;
  }
  absl::StatusOr<v1::ExistsResponse> Exists(const v1::ExistsRequest& request,
                                            const CallContext& context) override {
    return Call<v1::ExistsRequest, v1::ExistsResponse>(request, context, &master::Handlers::Exists);
  }
  absl::StatusOr<v1::RemoveResponse> Remove(const v1::RemoveRequest& request,
                                            const CallContext& context) override {
    return Call<v1::RemoveRequest, v1::RemoveResponse>(request, context, &master::Handlers::Remove);
  }
  absl::StatusOr<v1::ListObjectsResponse> ListObjects(const v1::ListObjectsRequest& request,
                                                      const CallContext& context) override {
    return Call<v1::ListObjectsRequest, v1::ListObjectsResponse>(request, context,
                                                                 &master::Handlers::ListObjects);
  }

 private:
  template <typename Answer, typename Response>
  static absl::StatusOr<Answer> Read(const absl::StatusOr<Encoded<Response>>& encoded) {
    if (!encoded.ok()) return encoded.status();
    Answer answer;
    MP_CHECK(ReadAnswer(encoded->bytes, answer), "an answer that nobody can read");
    return answer;
  }

  template <typename Response>
  struct Pending {
    absl::StatusOr<Response> answer = Unreached();
    bool is_over = false;  // an answer has come, or the connection has ended
  };

  absl::Duration SilenceFor(const LeaderChoice::Step& step, size_t asked,
                            const CallContext& context) const {
    if (choice_.size() == 1) return absl::InfiniteDuration();
    const auto left = static_cast<int64_t>(choice_.size() > asked ? choice_.size() - asked : 1);
    const absl::Duration share = (context.deadline - scheduler_.Now()) / (2 * left);
    return std::min(std::max(share, kSilenceMin), step.patience);
  }

  // One master. nullopt: it gives no sign of life.
  template <typename Response, typename Request, typename Method>
  std::optional<absl::StatusOr<Response>> Try(SimMaster& master, const Request& request,
                                              const CallContext& context, Method method,
                                              absl::Duration silence) {
    const auto pending = std::make_shared<Pending<Response>>();
    const uint64_t token = scheduler_.NewToken();
    const uint64_t life = master.lives();
    const std::function<void(absl::Status, Response)> back =
        [this, pending, token, from = master.host()](const absl::Status& status,
                                                     const Response& response) {
          const auto end = [this, pending, token](absl::StatusOr<Response> answer) {
            pending->answer = std::move(answer);
            pending->is_over = true;
            scheduler_.Wake(token);
          };
          const absl::StatusOr<Response> answer =
              status.ok() ? absl::StatusOr<Response>(response) : absl::StatusOr<Response>(status);
          if (network_.Send(from, host_, 0, [end, answer] { end(answer); })) return;
          // A connection that broke: the caller hears of it at once.
          scheduler_.After(kNoticeAfter, [end] { end(Unreached()); });
        };
    const auto serve = [method](master::Handlers& handlers, const Request& r, absl::Time now,
                                auto done) { (handlers.*method)(r, now, std::move(done)); };
    const bool sent = master.is_up() &&
                      network_.Send(host_, master.host(), 0, [&master, life, request, serve, back] {
                        // To a process that is gone: its end has broken the connection.
                        master.On(life, [&master, request, serve, back] {
                          master.template Take<Request, Response>(request, serve, back);
                        });
                      });
    if (!sent) {
      scheduler_.Sleep(
          std::clamp(context.deadline - scheduler_.Now(), absl::ZeroDuration(), kNoticeAfter));
      return Unreached();
    }
    events_.on_sent();
    master.BeginCall(token);
    bool is_silent = false;
    while (!pending->is_over && master.lives() == life && scheduler_.Now() < context.deadline &&
           !is_silent) {
      scheduler_.Block(token, std::min(context.deadline, scheduler_.Now() + silence));
      if (pending->is_over || master.lives() != life) break;
      is_silent = scheduler_.Now() < context.deadline &&
                  !IsThere(master, life, std::min(context.deadline, scheduler_.Now() + silence));
    }
    master.EndCall(token, life);
    if (!pending->is_over && master.lives() == life && scheduler_.Now() >= context.deadline) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                       "no answer by the deadline");
    }
    if (!pending->is_over && is_silent) return std::nullopt;
    return pending->answer;
  }

  bool IsThere(SimMaster& master, uint64_t life, absl::Time until) {
    const uint64_t token = scheduler_.NewToken();
    const auto is_there = std::make_shared<bool>(false);
    network_.Send(host_, master.host(), 0, [this, &master, life, is_there, token] {
      master.On(life, [this, &master, is_there, token] {
        network_.Send(master.host(), host_, 0, [this, is_there, token] {
          *is_there = true;
          scheduler_.Wake(token);
        });
      });
    });
    scheduler_.Block(token, until);
    return *is_there;
  }

  SimMasters& masters_;
  Scheduler& scheduler_;
  Network& network_;
  const std::string host_;
  const SimMasters::StubEvents events_;
  LeaderChoice choice_;
};

std::unique_ptr<client::MasterStub> SimMasters::NewStub(const std::string& host,
                                                        StubEvents events) {
  return std::make_unique<SimStub>(*this, host, std::move(events));
}

}  // namespace moonpool::sim
