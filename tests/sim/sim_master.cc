#include "tests/sim/sim_master.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/error.h"

namespace moonpool::sim {
namespace {

// How long a side of a broken stream takes to notice.
constexpr absl::Duration kNoticeAfter = absl::Milliseconds(5);

absl::Status Unreached() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   "master did not answer");
}

}  // namespace

SimMaster::SimMaster(Scheduler& scheduler, Network& network, const Options& options, Random random)
    : scheduler_(scheduler),
      network_(network),
      core_(options.core, options.term, random),
      handlers_(core_, options.handlers, scheduler.Now()) {
  ScheduleTick();
}

void SimMaster::ScheduleTick() {
  const absl::Time next = std::clamp(handlers_.NextWakeup(), scheduler_.Now(),
                                     scheduler_.Now() + absl::Milliseconds(20));
  // At least a little later: "at once" must not stop the clock.
  scheduler_.At(std::max(next, scheduler_.Now() + absl::Microseconds(100)), [this] {
    if (stopped_) return;
    handlers_.Tick(scheduler_.Now());
    ScheduleTick();
  });
}

void SimMaster::Stop() {
  stopped_ = true;
  handlers_.Shutdown(scheduler_.Now());
  for (auto& [id, stream] : streams_) handlers_.CloseSession(*stream.session, scheduler_.Now());
  streams_.clear();
}

uint64_t SimMaster::OpenStream(const std::string& host,
                               std::function<void(const v1::MasterMessage&)> deliver,
                               std::function<void()> closed) {
  if (stopped_ || !network_.Reaches(host, kHost)) return 0;
  const uint64_t id = network_.NewStream();
  auto session = handlers_.OpenSession(
      [this, id] {
        // Not from inside the handlers.
        scheduler_.After(absl::ZeroDuration(), [this, id] { Pump(id); });
      },
      scheduler_.Now());
  if (!session.ok()) return 0;
  streams_.emplace(id, Stream{.host = host,
                              .session = *std::move(session),
                              .deliver = std::move(deliver),
                              .closed = std::move(closed)});
  return id;
}

void SimMaster::SendOnStream(uint64_t stream, const v1::NodeMessage& message) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const bool sent = network_.Send(
      found->second.host, kHost, stream * 2 + (uint64_t{1} << 40), [this, stream, message] {
        const auto arrived = streams_.find(stream);
        if (stopped_ || arrived == streams_.end()) return;
        handlers_.OnNodeMessage(*arrived->second.session, message, scheduler_.Now());
      });
  if (!sent) Break(stream);
}

void SimMaster::Pump(uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || stopped_) return;
  Stream& stream = found->second;
  while (std::optional<v1::MasterMessage> message = stream.session->TakeMessage()) {
    const bool sent =
        network_.Send(kHost, stream.host, id * 2 + 1 + (uint64_t{1} << 40),
                      [deliver = stream.deliver, m = *std::move(message)] { deliver(m); });
    if (!sent) return Break(id);
  }
  if (stream.session->is_finished()) Break(id);
}

void SimMaster::Break(uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  scheduler_.After(kNoticeAfter, found->second.closed);
  found->second.closed = [] {};
  scheduler_.After(kNoticeAfter, [this, id] { CloseStream(id); });
}

void SimMaster::CloseStream(uint64_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  if (!stopped_) handlers_.CloseSession(*found->second.session, scheduler_.Now());
  streams_.erase(found);
}

// One unary call: there and back over the network, while the caller blocks in virtual time.
class SimStub final : public client::MasterStub {
 public:
  SimStub(SimMaster& master, std::string host) : master_(master), host_(std::move(host)) {}

  template <typename Request, typename Response, typename Method>
  absl::StatusOr<Response> Call(const Request& request, const CallContext& context, Method method) {
    struct Pending {
      absl::StatusOr<Response> answer = Unreached();
      bool arrived = false;
    };
    Scheduler& scheduler = master_.scheduler_;
    const auto pending = std::make_shared<Pending>();
    const uint64_t token = scheduler.NewToken();
    auto back = [this, pending, token, &scheduler](absl::Status status, Response response) {
      const bool sent = master_.network_.Send(
          SimMaster::kHost, host_, 0,
          [pending, token, &scheduler, status, response = std::move(response)]() mutable {
            pending->answer = status.ok() ? absl::StatusOr<Response>(std::move(response))
                                          : absl::StatusOr<Response>(status);
            pending->arrived = true;
            scheduler.Wake(token);
          });
      // A connection that broke: the caller hears of it at once.
      if (!sent) scheduler.After(kNoticeAfter, [token, &scheduler] { scheduler.Wake(token); });
    };
    const bool sent =
        master_.network_.Send(host_, SimMaster::kHost, 0, [this, request, method, back] {
          if (master_.stopped()) return;
          (master_.handlers_.*method)(request, master_.scheduler_.Now(), back);
        });
    if (!sent) {
      scheduler.Sleep(std::min(kNoticeAfter, context.deadline - scheduler.Now()));
      return Unreached();
    }
    scheduler.Block(token, context.deadline);
    if (!pending->arrived && scheduler.Now() >= context.deadline) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                       "no answer by the deadline");
    }
    return pending->answer;
  }

  absl::StatusOr<v1::OpenNamespaceResponse> OpenNamespace(const v1::OpenNamespaceRequest& request,
                                                          const CallContext& context) override {
    return Call<v1::OpenNamespaceRequest, v1::OpenNamespaceResponse>(
        request, context, &master::Handlers::OpenNamespace);
  }
  absl::StatusOr<v1::StartPutsResponse> StartPuts(const v1::StartPutsRequest& request,
                                                  const CallContext& context) override {
    return Call<v1::StartPutsRequest, v1::StartPutsResponse>(request, context,
                                                             &master::Handlers::StartPuts);
  }
  absl::StatusOr<v1::CommitPutsResponse> CommitPuts(const v1::CommitPutsRequest& request,
                                                    const CallContext& context) override {
    return Call<v1::CommitPutsRequest, v1::CommitPutsResponse>(request, context,
                                                               &master::Handlers::CommitPuts);
  }
  absl::StatusOr<v1::AbortPutsResponse> AbortPuts(const v1::AbortPutsRequest& request,
                                                  const CallContext& context) override {
    return Call<v1::AbortPutsRequest, v1::AbortPutsResponse>(request, context,
                                                             &master::Handlers::AbortPuts);
  }
  absl::StatusOr<v1::LocateResponse> Locate(const v1::LocateRequest& request,
                                            const CallContext& context) override {
    return Call<v1::LocateRequest, v1::LocateResponse>(request, context, &master::Handlers::Locate);
  }
  absl::StatusOr<v1::MatchPrefixResponse> MatchPrefix(const v1::MatchPrefixRequest& request,
                                                      const CallContext& context) override {
    return Call<v1::MatchPrefixRequest, v1::MatchPrefixResponse>(request, context,
                                                                 &master::Handlers::MatchPrefix);
  }
  absl::StatusOr<v1::ExistsResponse> Exists(const v1::ExistsRequest& request,
                                            const CallContext& context) override {
    return Call<v1::ExistsRequest, v1::ExistsResponse>(request, context, &master::Handlers::Exists);
  }
  absl::StatusOr<v1::RemoveResponse> Remove(const v1::RemoveRequest& request,
                                            const CallContext& context) override {
    return Call<v1::RemoveRequest, v1::RemoveResponse>(request, context, &master::Handlers::Remove);
  }

 private:
  SimMaster& master_;
  const std::string host_;
};

std::unique_ptr<client::MasterStub> SimMaster::NewStub(const std::string& host) {
  return std::make_unique<SimStub>(*this, host);
}

}  // namespace moonpool::sim
