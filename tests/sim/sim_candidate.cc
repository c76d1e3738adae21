// A master of several: its election, and how its reigns begin.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "master/meta/begin_term.h"
#include "master/meta/records.h"
#include "tests/sim/sim_master.h"

namespace moonpool::sim {
namespace {

constexpr absl::Duration kLoadTimeout = absl::Seconds(2);
constexpr absl::Duration kLoadAgainAfter = absl::Seconds(1);

}  // namespace

void SimMaster::StartCandidate() {
  life_ = std::make_unique<Life>(master::Mastership::kElected, options_.handlers);
  life_->election = std::make_unique<master::Election>(
      master::ElectionOptions{.prefix = SimEtcd::kPrefix, .address = address()},
      Random(random_.Next()), life_->leadership, life_->metrics, logger_);
  scheduler_.After(absl::ZeroDuration(), [this, life = lives_] {
    On(life, [this] { Drive(life_->election->Tick(Now())); });
  });
  ScheduleTick();
}

void SimMaster::Drive(master::ElectionOutput out) {
  for (const master::ElectionEvent& event : out.events) life_->reigns.OnElection(event, Now());
  for (master::ElectionCall& call : out.calls) {
    etcd_->Call(host_, std::move(call.request), call.timeout,
                [this, life = lives_, id = call.id](const auto& answer) {
                  On(life,
                     [this, id, answer] { Drive(life_->election->OnAnswer(id, answer, Now())); });
                });
  }
  if (out.wake_at != absl::InfiniteFuture()) {
    scheduler_.After(out.wake_at - Now(), [this, life = lives_] {
      On(life, [this] { Drive(life_->election->Tick(Now())); });
    });
  }
  Pump();
}

void SimMaster::SettleRaises() {
  const bool leads = life_->election->state() == master::ElectionState::kLeading;
  for (Raise& raise : std::exchange(life_->raises, {})) {
    if (!leads) {
      std::move(raise.done)(MakeError(absl::StatusCode::kFailedPrecondition,
                                      ErrorReason::kStaleTerm, "the reign is over"));
    } else if (life_->election->term() >= raise.at_least) {
      std::move(raise.done)(absl::OkStatus());
    } else {
      life_->raises.push_back(std::move(raise));
    }
  }
}

void SimMaster::BeginReign() {
  const auto& next = life_->reigns.to_begin();
  if (!next.has_value() || life_->beginning != nullptr || Now() < life_->begin_after) return;
  const uint64_t life = lives_;
  life_->beginning = std::make_unique<Beginning>();
  life_->beginning->reign = next->reign;
  life_->beginning->store = std::make_unique<master::ReignStore>(
      std::make_unique<SimReignRecords>(
          scheduler_, *etcd_, host_, next->reign,
          [this, life](std::function<void()> what) { On(life, std::move(what)); }),
      [this, life](Term at_least, master::MetaStore::WriteDone done) {
        // Not from inside the store.
        if (!is_up() || life != lives_) return std::move(done)(absl::CancelledError("ended"));
        life_->raises.push_back({.at_least = at_least, .done = std::move(done)});
        scheduler_.After(absl::ZeroDuration(), [this, life, at_least] {
          On(life, [this, at_least] { Drive(life_->election->RaiseTerm(at_least, Now())); });
        });
      });
  const std::string start = absl::StrCat(SimEtcd::kPrefix, "/meta/");
  etcd_->Call(host_, master::EtcdGet{.key = start, .range_end = master::EtcdPrefixEnd(start)},
              kLoadTimeout, [this, life, term = next->term](const auto& answer) {
                On(life, [this, answer, term] { OnLoaded(answer, term); });
              });
}

void SimMaster::OnLoaded(const absl::StatusOr<master::EtcdAnswer>& answer, Term term) {
  Beginning& beginning = *life_->beginning;
  const auto* range = answer.ok() ? std::get_if<master::EtcdRange>(&*answer) : nullptr;
  if (range == nullptr) return EndBeginning(absl::UnavailableError("not loaded"));
  const size_t prefix = std::string(SimEtcd::kPrefix).size() + 6;
  std::vector<master::MetaRecord> records;
  for (const master::EtcdKeyValue& record : range->records) {
    records.push_back({.key = record.key.substr(prefix), .value = record.value});
  }
  beginning.left = master::DecodeRecords(records).state;
  beginning.term = *master::TermAfter(beginning.left, term);
  beginning.store->Write({master::EncodeChange(beginning.term)},
                         [this, life = lives_](const absl::Status& status) {
                           if (!is_up() || life != lives_) return;
                           // Not from inside the store, which may end here.
                           scheduler_.After(absl::ZeroDuration(), [this, life, status] {
                             On(life, [this, status] { EndBeginning(status); });
                           });
                         });
}

void SimMaster::EndBeginning(const absl::Status& status) {
  const std::unique_ptr<Beginning> beginning = std::move(life_->beginning);
  if (status.ok()) {
    auto core = std::make_unique<master::Core>(options_.core, beginning->term,
                                               Random(random_.Next()), beginning->left);
    if (life_->reigns.Begin(beginning->reign, std::move(beginning->store), std::move(core),
                            Now())) {
      options_.on_begin();
    }
  } else {
    life_->begin_after = Now() + kLoadAgainAfter;
  }
  Pump();
}

}  // namespace moonpool::sim
