#include "master/service/candidacy.h"

#include <pthread.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "master/meta/begin_term.h"
#include "master/meta/etcd_meta_store.h"
#include "master/meta/reign_store.h"

namespace moonpool::master {

Candidacy::Candidacy(CandidacyOptions options, Etcd& etcd, SharedHandlers& handlers,
                     Dependencies dependencies)
    : options_(std::move(options)),
      etcd_(etcd),
      handlers_(handlers),
      clock_(dependencies.clock),
      logger_(dependencies.logger),
      metrics_(dependencies.registry),
      failed_loads_(dependencies.registry.AddCounter(
          "moonpool_master_failed_loads_total",
          "Times a new leader could not load the durable state from etcd; repeated.")),
      election_(std::make_unique<Election>(options_.election, Random(EntropySeed()),
                                           handlers.leadership(), metrics_, logger_),
                etcd, clock_, [this](const ElectionEvent& event) { OnEvent(event); }) {}

Candidacy::~Candidacy() { Stop(); }

void Candidacy::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "reign");
    Run();
  });
  election_.Start();
}

void Candidacy::Stop() {
  if (!thread_.joinable()) return;
  election_.Stop();  // which ends the reign, and with it whatever waits for etcd
  handlers_.EndReignWork();
  thread_.join();
}

void Candidacy::OnEvent(const ElectionEvent& event) {
  handlers_.Run([&](Reigns& reigns, absl::Time now) { reigns.OnElection(event, now); });
  // Whatever is asked of etcd for a reign that is over is of no use to anybody.
  absl::MutexLock lock(&mutex_);
  if (!last_.has_value()) return;
  const bool is_other = event.kind == ElectionEvent::Kind::kLeader && event.reign != last_->reign;
  if (is_other || event.kind == ElectionEvent::Kind::kLost) last_->end.Cancel();
}

void Candidacy::Run() {
  while (true) {
    SharedHandlers::ReignWork work = handlers_.AwaitReignWork(resting_, not_before_);
    if (work.is_over) return;
    // Before what has ended is destroyed: that takes a while, and nobody waits for it.
    if (work.to_begin.has_value()) TryToBegin(*work.to_begin);
  }
}

CancelToken Candidacy::EndOf(Reign reign) {
  CancelSource end;
  {
    absl::MutexLock lock(&mutex_);
    if (last_.has_value() && last_->reign == reign) return last_->end.token();
    last_ = {.reign = reign, .end = end};
  }
  // It may have come before it could be told.
  handlers_.Run([&](Reigns& reigns, absl::Time) {
    const auto& awaited = reigns.to_begin();
    if (!awaited.has_value() || awaited->reign != reign) end.Cancel();
  });
  return end.token();
}

void Candidacy::TryToBegin(const Reigns::Beginning& next) {
  const absl::Status status = Load(next, EndOf(next.reign));
  NoteFailure(status);
  resting_ = status.ok() ? Reign{} : next.reign;
  not_before_ = status.ok() ? absl::InfinitePast() : clock_.Now() + options_.load_retry;
  if (status.ok()) return;
  failed_loads_.Increment();
  logger_.Error("this master was elected and cannot load the durable state; it tries again",
                {{"term", next.term.value},
                 {"reign", next.reign.value},
                 {"why", Describe(status)},
                 {"retry_after", options_.load_retry}});
}

absl::Status Candidacy::Load(const Reigns::Beginning& next, const CancelToken& end) {
  auto store = std::make_unique<ReignStore>(
      std::make_unique<EtcdMetaStore>(
          EtcdMetaStoreOptions{
              .prefix = options_.election.prefix, .reign = next.reign, .cancel = end},
          etcd_, clock_),
      [this](Term at_least, MetaStore::WriteDone done) {
        election_.RaiseTerm(at_least, std::move(done));
      });
  const absl::StatusOr<BegunTerm> begun =
      BeginTerm(*store, next.term, clock_, clock_.Now() + options_.load_timeout);
  if (!begun.ok() && end.cancelled()) return absl::OkStatus();
  RETURN_IF_ERROR(begun.status());
  LogLeft(begun->left, logger_);
  auto core =
      std::make_unique<Core>(options_.core, begun->term, Random(EntropySeed()), begun->left.state);
  bool has_begun = false;
  handlers_.Run([&](Reigns& reigns, absl::Time now) {
    has_begun = reigns.Begin(next.reign, std::move(store), std::move(core), now);
  });
  if (has_begun) {
    logger_.Info("term begins", {{"term", begun->term.value}, {"reign", next.reign.value}});
  }
  return absl::OkStatus();
}

void Candidacy::NoteFailure(const absl::Status& failure) {
  absl::MutexLock lock(&mutex_);
  failure_ = failure;
}

Health Candidacy::health() const {
  std::string text = election_.Describe();
  const absl::Time now = clock_.Now();
  const Reign reign = handlers_.leadership().ReignAt(now);
  if (reign == Reign{}) return {.is_healthy = true, .text = std::move(text)};
  const bool serves = handlers_.present_reign() == reign;
  absl::StrAppend(&text, serves ? "; serving" : "; loading the durable state", ", reign ",
                  reign.value, ", lease for another ",
                  absl::FormatDuration(absl::Trunc(handlers_.leadership().deadline() - now,
                                                   absl::Milliseconds(100))));
  absl::MutexLock lock(&mutex_);
  if (!serves && !failure_.ok()) {
    absl::StrAppend(&text, ", which fails: ", moonpool::Describe(failure_));
  }
  return {.is_healthy = true, .text = std::move(text)};
}

}  // namespace moonpool::master
