#include "master/service/election_thread.h"

#include <pthread.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kRoundMax = absl::Seconds(1);

absl::Status ReignIsOver() {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                   "this master does not lead any more, and its term cannot be raised",
                   {.hint = "ask the master that leads now"});
}

absl::Status NoSuchTerm(Term term) {
  return MakeError(absl::StatusCode::kOutOfRange, ErrorReason::kLimitReached,
                   absl::StrCat("no election counts as far as term ", term.value),
                   {.hint = "a node says that it has seen such a term: start it with a new pool"});
}

}  // namespace

ElectionThread::ElectionThread(std::unique_ptr<Election> election, Etcd& etcd, const Clock& clock,
                               OnEvent on_event)
    : election_(std::move(election)),
      etcd_(etcd),
      clock_(clock),
      on_event_(std::move(on_event)),
      inbox_(std::make_shared<Inbox>()) {}

ElectionThread::~ElectionThread() { MP_CHECK(!thread_.joinable(), "the election runs on"); }

void ElectionThread::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "election");
    Run();
  });
}

void ElectionThread::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&inbox_->mutex);
    inbox_->is_stopping = true;
    inbox_->news.Signal();
  }
  thread_.join();
}

void ElectionThread::Run() {
  bool has_begun_to_stop = false;
  while (!election_->has_resigned()) {
    ElectionOutput out = election_->Tick(clock_.Now());
    const absl::Time wake_at = out.wake_at;
    CarryOut(std::move(out));
    Publish();
    Mail mail = TakeMail(has_begun_to_stop ? absl::InfiniteFuture() : wake_at);
    for (auto& [call, answer] : mail.answers) {
      CarryOut(election_->OnAnswer(call, std::move(answer), clock_.Now()));
    }
    for (Raise& raise : mail.raises) {
      CarryOut(election_->RaiseTerm(raise.at_least, clock_.Now()));
      raises_.push_back(std::move(raise));
    }
    if (mail.is_stopping && !std::exchange(has_begun_to_stop, true)) {
      CarryOut(election_->Resign(clock_.Now()));
    }
    SettleRaises();
  }
  Publish();
  {
    absl::MutexLock lock(&inbox_->mutex);
    inbox_->is_closed = true;
    for (Raise& raise : inbox_->raises) raises_.push_back(std::move(raise));
    inbox_->raises.clear();
  }
  SettleRaises();
}

void ElectionThread::SettleRaises() {
  const bool leads = election_->state() == ElectionState::kLeading;
  for (Raise& raise : std::exchange(raises_, {})) {
    if (!leads) {
      std::move(raise.done)(ReignIsOver());
    } else if (raise.at_least > kTermMax) {
      std::move(raise.done)(NoSuchTerm(raise.at_least));
    } else if (election_->term() >= raise.at_least) {
      std::move(raise.done)(absl::OkStatus());
    } else {
      raises_.push_back(std::move(raise));
    }
  }
}

ElectionThread::Mail ElectionThread::TakeMail(absl::Time until) {
  const absl::Duration wait = std::clamp(until - clock_.Now(), absl::ZeroDuration(), kRoundMax);
  absl::MutexLock lock(&inbox_->mutex);
  // A stop is news only until the election has resigned; then the answer to that is awaited.
  const bool knows_of_stop = election_->state() == ElectionState::kResigned;
  const auto is_due = [this, knows_of_stop]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox_->mutex) {
    return !inbox_->answers.empty() || !inbox_->raises.empty() ||
           (inbox_->is_stopping && !knows_of_stop);
  };
  inbox_->news.Await(&inbox_->mutex, wait, is_due);
  return {.answers = std::exchange(inbox_->answers, {}),
          .raises = std::exchange(inbox_->raises, {}),
          .is_stopping = inbox_->is_stopping};
}

void ElectionThread::CarryOut(ElectionOutput out) {
  // First what others wait to hear: a call may take its time to begin.
  for (const ElectionEvent& event : out.events) {
    Publish();
    on_event_(event);
  }
  for (ElectionCall& call : out.calls) {
    etcd_.Call(std::move(call.request), call.timeout,
               [inbox = inbox_, id = call.id](absl::StatusOr<EtcdAnswer> answer) {
                 absl::MutexLock lock(&inbox->mutex);
                 inbox->answers.emplace_back(id, std::move(answer));
                 inbox->news.Signal();
               });
  }
}

void ElectionThread::Publish() {
  absl::MutexLock lock(&mutex_);
  state_ = election_->state();
  term_ = election_->term();
  leader_ = state_ == ElectionState::kLeading ? "" : election_->leader();
  failure_ = election_->last_failure();
}

void ElectionThread::RaiseTerm(Term at_least, RaiseDone done) {
  {
    absl::MutexLock lock(&inbox_->mutex);
    if (!inbox_->is_closed) {
      inbox_->raises.push_back({.at_least = at_least, .done = std::move(done)});
      inbox_->news.Signal();
      return;
    }
  }
  std::move(done)(ReignIsOver());
}

std::string ElectionThread::leader() const {
  absl::MutexLock lock(&mutex_);
  return leader_;
}

std::string ElectionThread::Describe() const {
  const bool is_silent = !leadership().IsLeaderAt(clock_.Now());
  absl::MutexLock lock(&mutex_);
  std::string text(ElectionStateName(state_));
  if (state_ == ElectionState::kLeading) {
    absl::StrAppend(&text, " in term ", term_.value, is_silent ? ", silent without a lease" : "");
  } else if (state_ == ElectionState::kFollowing) {
    absl::StrAppend(&text, " ", leader_.empty() ? "nobody yet" : leader_);
  }
  if (!failure_.ok()) absl::StrAppend(&text, ": ", moonpool::Describe(failure_));
  return text;
}

}  // namespace moonpool::master
