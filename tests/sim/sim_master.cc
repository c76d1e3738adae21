#include "tests/sim/sim_master.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/error.h"
#include "master/meta/begin_term.h"
#include "master/meta/records.h"

namespace moonpool::sim {
namespace {

// How long a side of a broken stream takes to notice.
constexpr absl::Duration kNoticeAfter = absl::Milliseconds(5);
// A master that could not make its term durable.
constexpr absl::Duration kStartAgainAfter = absl::Milliseconds(500);

absl::Status Unreached() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   "master did not answer");
}

}  // namespace

SimMaster::SimMaster(Scheduler& scheduler, Network& network, const Options& options, Random random)
    : scheduler_(scheduler), network_(network), options_(options), random_(random) {
  Start();
}

void SimMaster::Start() {
  ++lives_;
  if (options_.keeps_state) return StartWithStore();
  ++last_term_.value;
  life_ = std::make_unique<Life>(options_, last_term_, Random(random_.Next()), scheduler_.Now());
  ScheduleTick();
}

void SimMaster::StartWithStore() {
  store_ = std::make_unique<master::MemoryMetaStore>(disk_, [this] { FinishWriteLater(); });
  store_->Hold();
  const auto records = store_->Load(absl::InfiniteFuture());
  const master::DurableState left = master::DecodeRecords(*records).state;
  const Term term = *master::TermAfter(left, Term{1});
  store_->Write({master::EncodeChange(term)}, [this, left, term](const absl::Status& status) {
    if (!status.ok()) return scheduler_.After(kStartAgainAfter, [this] { Start(); });
    life_ = std::make_unique<Life>(options_, term, Random(random_.Next()), scheduler_.Now(), left);
    ScheduleTick();
  });
}

void SimMaster::FinishWriteLater() {
  const bool is_slow = options_.meta_failures > 0 && random_.OneIn(50);
  const double longest = is_slow ? 2.0 : 0.01;
  scheduler_.After(absl::Seconds(longest) * random_.Uniform(), [this, life = lives_] {
    if (life != lives_ || store_ == nullptr || store_->held() == 0) return;
    const bool fails = random_.Uniform() < options_.meta_failures;
    store_->FinishOne(fails ? absl::ResourceExhaustedError("no space") : absl::OkStatus());
  });
}

void SimMaster::PumpWrites() {
  if (!is_up() || store_ == nullptr) return;
  std::optional<master::MetaBatch> batch = handlers().TakeWrite(scheduler_.Now());
  if (!batch.has_value()) return;
  store_->Write(*std::move(batch), [this, life = lives_](const absl::Status& status) {
    if (!is_up() || life != lives_) return;
    handlers().OnWritten(status, scheduler_.Now());
    PumpWrites();
  });
}

void SimMaster::Crash() {
  if (life_ == nullptr) return;
  last_term_ = std::max(last_term_, life_->core.term());
  for (auto& [id, stream] : life_->streams) scheduler_.After(kNoticeAfter, stream.closed);
  for (const uint64_t token : life_->open_calls) {
    scheduler_.After(kNoticeAfter, [this, token] { scheduler_.Wake(token); });
  }
  life_.reset();
  // What nobody was told is durable, or not.
  if (store_ != nullptr && store_->held() > 0 && random_.OneIn(2)) store_->FinishOne();
  store_.reset();
}

void SimMaster::ScheduleTick() {
  const absl::Time next = std::clamp(handlers().NextWakeup(), scheduler_.Now(),
                                     scheduler_.Now() + absl::Milliseconds(20));
  // At least a little later: "at once" must not stop the clock.
  scheduler_.At(std::max(next, scheduler_.Now() + absl::Microseconds(100)), [this, life = lives_] {
    if (!is_up() || life != lives_) return;
    handlers().Tick(scheduler_.Now());
    PumpWrites();
    ScheduleTick();
  });
}

SimMaster::Stream* SimMaster::FindStream(uint64_t id) {
  if (!is_up()) return nullptr;
  const auto found = life_->streams.find(id);
  return found == life_->streams.end() ? nullptr : &found->second;
}

uint64_t SimMaster::OpenStream(const std::string& host,
                               std::function<void(const v1::MasterMessage&)> deliver,
                               std::function<void()> closed) {
  if (!is_up() || !network_.Reaches(host, kHost)) return 0;
  const uint64_t id = network_.NewStream();
  auto session = handlers().OpenSession(
      [this, id] {
        // Not from inside the handlers.
        scheduler_.After(absl::ZeroDuration(), [this, id] { Pump(id); });
      },
      scheduler_.Now());
  if (!session.ok()) return 0;
  life_->streams.emplace(id, Stream{.host = host,
                                    .session = *std::move(session),
                                    .deliver = std::move(deliver),
                                    .closed = std::move(closed)});
  return id;
}

void SimMaster::SendOnStream(uint64_t id, const v1::NodeMessage& message) {
  const Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  const bool sent =
      network_.Send(stream->host, kHost, id * 2 + (uint64_t{1} << 40), [this, id, message] {
        Stream* const arrived = FindStream(id);
        if (arrived == nullptr) return;
        handlers().OnNodeMessage(*arrived->session, message, scheduler_.Now());
        PumpWrites();
      });
  if (!sent) Break(id);
}

void SimMaster::Pump(uint64_t id) {
  const Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  while (std::optional<v1::MasterMessage> message = stream->session->TakeMessage()) {
    const bool sent =
        network_.Send(kHost, stream->host, id * 2 + 1 + (uint64_t{1} << 40),
                      [deliver = stream->deliver, m = *std::move(message)] { deliver(m); });
    if (!sent) return Break(id);
  }
  if (stream->session->is_finished()) Break(id);
}

void SimMaster::Break(uint64_t id) {
  Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  scheduler_.After(kNoticeAfter, stream->closed);
  stream->closed = [] {};
  scheduler_.After(kNoticeAfter, [this, id] { CloseStream(id); });
}

void SimMaster::CloseStream(uint64_t id) {
  Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  handlers().CloseSession(*stream->session, scheduler_.Now());
  life_->streams.erase(id);
}

// One unary call: there and back over the network, while the caller blocks in virtual time.
class SimStub final : public client::MasterStub {
 public:
  SimStub(SimMaster& master, std::string host, std::function<void()> on_start)
      : master_(master), host_(std::move(host)), on_start_(std::move(on_start)) {}

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
        master_.is_up() &&
        master_.network_.Send(
            host_, SimMaster::kHost, 0, [this, request, method, back, life = master_.lives_] {
              // To a process that is gone; its end has broken the connection.
              if (!master_.is_up() || master_.lives_ != life) return;
              (master_.handlers().*method)(request, master_.scheduler_.Now(), back);
              master_.PumpWrites();
            });
    if (!sent) {
      scheduler.Sleep(std::min(kNoticeAfter, context.deadline - scheduler.Now()));
      return Unreached();
    }
    master_.life_->open_calls.insert(token);
    scheduler.Block(token, context.deadline);
    if (master_.is_up()) master_.life_->open_calls.erase(token);
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
    on_start_();
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
  const std::function<void()> on_start_;
};

std::unique_ptr<client::MasterStub> SimMaster::NewStub(const std::string& host,
                                                       std::function<void()> on_start) {
  return std::make_unique<SimStub>(*this, host, std::move(on_start));
}

}  // namespace moonpool::sim
