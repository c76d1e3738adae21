#include "tests/sim/sim_master.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "master/meta/begin_term.h"
#include "master/meta/records.h"

namespace moonpool::sim {
namespace {

// How long a side of a broken stream takes to notice.
constexpr absl::Duration kNoticeAfter = absl::Milliseconds(5);
// A master that could not make its term durable.
constexpr absl::Duration kStartAgainAfter = absl::Milliseconds(500);

}  // namespace

SimMaster::SimMaster(Scheduler& scheduler, Network& network, SimEtcd* etcd, std::string host,
                     const Options& options, Random random)
    : scheduler_(scheduler),
      network_(network),
      etcd_(etcd),
      host_(std::move(host)),
      options_(options),
      random_(random) {
  Start();
}

void SimMaster::Start() {
  ++lives_;
  if (etcd_ != nullptr) return StartCandidate();
  StartAlone();
}

void SimMaster::StartAlone() {
  if (!options_.keeps_state) return BeginAlone(TermOfThisStart(), {});
  auto store = std::make_unique<master::MemoryMetaStore>(disk_, [this] { FinishWriteLater(); });
  store_ = store.get();
  store_->Hold();
  const auto records = store_->Load(absl::InfiniteFuture());
  const master::DurableState left = master::DecodeRecords(*records).state;
  const Term term = *master::TermAfter(left, TermOfThisStart());
  // Until the term is durable there is no reign that could own it.
  starting_ = std::move(store);
  store_->Write({master::EncodeChange(term)}, [this, left, term](const absl::Status& status) {
    if (!status.ok()) return scheduler_.After(kStartAgainAfter, [this] { Start(); });
    BeginAlone(term, left);
  });
}

Term SimMaster::TermOfThisStart() {
  const absl::Time shown = options_.wall_clock.At(scheduler_.Now());
  const Term term{static_cast<uint32_t>(absl::ToUnixSeconds(shown))};
  if (term <= last_term_) ++low_terms_;
  return term;
}

void SimMaster::BeginAlone(Term term, const master::DurableState& left) {
  life_ = std::make_unique<Life>(master::Mastership::kAlone, options_.handlers);
  const Random random(random_.Next());
  auto core = options_.keeps_state
                  ? std::make_unique<master::Core>(options_.core, term, random, left)
                  : std::make_unique<master::Core>(options_.core, term, random);
  life_->leadership.Begin(master::kReignAlone, absl::InfiniteFuture());
  life_->reigns.OnElection(
      {.kind = master::ElectionEvent::Kind::kLeader, .term = term, .reign = master::kReignAlone},
      Now());
  life_->reigns.Begin(master::kReignAlone, std::move(starting_), std::move(core), Now());
  ScheduleTick();
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

uint64_t SimMaster::reign() const {
  if (!leads()) return 0;
  return etcd_ == nullptr ? lives_ : static_cast<uint64_t>(life_->reigns.present()->reign.value);
}

void SimMaster::Crash() {
  if (life_ == nullptr) return;
  if (leads()) last_term_ = std::max(last_term_, core().term());
  ++lives_;
  for (auto& [id, stream] : life_->streams) scheduler_.After(kNoticeAfter, stream.closed);
  for (const uint64_t token : life_->open_calls) {
    scheduler_.After(kNoticeAfter, [this, token] { scheduler_.Wake(token); });
  }
  // What nobody was told is durable, or not.
  if (store_ != nullptr && store_->held() > 0 && random_.OneIn(2)) store_->FinishOne();
  store_ = nullptr;
  for (Raise& raise : std::exchange(life_->raises, {})) {
    std::move(raise.done)(absl::CancelledError("the process ends"));
  }
  life_.reset();
  held_.clear();
  is_paused_ = false;
}

void SimMaster::On(uint64_t life, std::function<void()> what) {
  if (life != lives_ || !is_up()) return;
  if (!is_paused_) {
    life_->reigns.Observe(Now());
    return what();
  }
  held_.push_back([this, life, what = std::move(what)] { On(life, what); });
}

void SimMaster::Pause() { is_paused_ = is_up(); }

void SimMaster::Continue() {
  is_paused_ = false;
  for (std::function<void()>& what : std::exchange(held_, {})) {
    scheduler_.After(absl::ZeroDuration(), std::move(what));
  }
}

void SimMaster::Pump() {
  if (!is_up()) return;
  if (etcd_ != nullptr) {
    SettleRaises();
    BeginReign();
    // Not under the feet of who calls.
    scheduler_.After(absl::ZeroDuration(), [this, life = lives_] {
      if (is_up() && life == lives_) life_->reigns.TakeEnded().clear();
    });
  }
  while (std::optional<master::Reigns::DueWrite> due = life_->reigns.TakeWrite(Now())) {
    WriteDue(*std::move(due));
  }
}

void SimMaster::WriteDue(master::Reigns::DueWrite due) {
  due.store->Write(std::move(due.batch),
                   [this, life = lives_, reign = due.reign](const absl::Status& status) {
                     if (!is_up() || life != lives_) return;
                     life_->reigns.OnWritten(reign, status, Now());
                     auto next = life_->reigns.EndWrite(reign, /*goes_on=*/true, Now());
                     if (next.has_value()) WriteDue(*std::move(next));
                     Pump();
                   });
}

void SimMaster::ScheduleTick() {
  const absl::Time next =
      std::clamp(life_->reigns.NextWakeup(), Now(), Now() + absl::Milliseconds(20));
  // At least a little later: "at once" must not stop the clock.
  const absl::Duration wait = std::max(next - Now(), absl::Microseconds(100));
  scheduler_.After(wait, [this, life = lives_] {
    On(life, [this] {
      life_->reigns.Tick(Now());
      Pump();
      ScheduleTick();
    });
  });
}

// --- Streams of nodes.

SimMaster::Stream* SimMaster::FindStream(uint64_t id) {
  if (!is_up()) return nullptr;
  const auto found = life_->streams.find(id);
  return found == life_->streams.end() ? nullptr : &found->second;
}

uint64_t SimMaster::OpenStream(const std::string& host,
                               std::function<void(const v1::MasterMessage&)> deliver,
                               std::function<void()> closed) {
  if (!is_up() || !network_.Reaches(host, host_)) return 0;
  const uint64_t id = network_.NewStream();
  life_->streams.emplace(id, Stream{.host = host,
                                    .deliver = std::move(deliver),
                                    .closed = std::move(closed),
                                    .reign = {},
                                    .session = nullptr});
  On(lives_, [this, id] { OpenSession(id); });
  return id;
}

void SimMaster::OpenSession(uint64_t id) {
  Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  const auto admission = life_->reigns.Admit(Now());
  absl::Status refusal = admission.status();
  if (admission.ok()) {
    stream->reign = admission->reign;
    auto session = admission->handlers->OpenSession(
        [this, id] {
          // Not from inside the handlers.
          scheduler_.After(absl::ZeroDuration(), [this, id] { PumpStream(id); });
        },
        Now());
    refusal = session.status();
    if (session.ok()) stream->session = *std::move(session);
  }
  if (refusal.ok()) return;
  v1::MasterMessage message;
  StatusToProto(refusal, message.mutable_refused()->mutable_status());
  network_.Send(host_, stream->host, id * 2 + 1 + (uint64_t{1} << 40),
                [deliver = stream->deliver, message] { deliver(message); });
  Break(id);
}

void SimMaster::SendOnStream(uint64_t id, const v1::NodeMessage& message) {
  const Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  const bool sent = network_.Send(
      stream->host, host_, id * 2 + (uint64_t{1} << 40), [this, id, message, life = lives_] {
        On(life, [this, id, message] {
          Stream* const arrived = FindStream(id);
          if (arrived == nullptr || arrived->session == nullptr) return;
          life_->reigns.Find(arrived->reign)->OnNodeMessage(*arrived->session, message, Now());
          Pump();
        });
      });
  if (!sent) Break(id);
}

void SimMaster::PumpStream(uint64_t id) {
  const Stream* const stream = FindStream(id);
  if (stream == nullptr || stream->session == nullptr) return;
  while (std::optional<v1::MasterMessage> message = stream->session->TakeMessage()) {
    const bool sent =
        network_.Send(host_, stream->host, id * 2 + 1 + (uint64_t{1} << 40),
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
  CloseStream(id);
}

void SimMaster::CloseStream(uint64_t id) {
  scheduler_.After(kNoticeAfter,
                   [this, id, life = lives_] { On(life, [this, id] { CloseSession(id); }); });
}

void SimMaster::CloseSession(uint64_t id) {
  Stream* const stream = FindStream(id);
  if (stream == nullptr) return;
  if (stream->session != nullptr) {
    life_->reigns.Find(stream->reign)->CloseSession(*stream->session, Now());
  }
  life_->streams.erase(id);
  Pump();
}

}  // namespace moonpool::sim
