#include "master/handlers/reigns.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/guard.h"

namespace moonpool::master {
namespace {

// From a refusal that names no leader to the next question.
constexpr absl::Duration kRetryAfter = absl::Milliseconds(200);

absl::Status NotLeader(const std::string& leader) {
  if (!leader.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                     absl::StrCat("this master does not lead, the one at ", leader, " does"),
                     {.hint = "call that one", .leader = leader});
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                   "this master does not lead, and knows of nobody who does",
                   {.hint = "ask the other masters, and this one again in a moment",
                    .retry_after = kRetryAfter});
}

// Nobody holds on to it.
bool IsFree(const std::unique_ptr<ReignState>& state) {
  return !state->is_writing && state->handlers.session_count() == 0;
}

}  // namespace

bool MayAnswer(const Leadership& leadership, Reign reign, absl::Time now) {
  return !GuardIsOn(Guard::kAnswerInReign) || leadership.ReignAt(now) == reign;
}

// --- Reigns come and go.

void Reigns::OnElection(const ElectionEvent& event, absl::Time now) {
  switch (event.kind) {
    case ElectionEvent::Kind::kLeader:
      leader_.clear();
      // Again with a higher term: that was asked for by who has to know (the store of the reign).
      if (to_begin_.has_value() && to_begin_->reign == event.reign) return;
      if (present_ != nullptr && present_->reign == event.reign) return;
      EndPresent(now);
      to_begin_ = Beginning{.reign = event.reign, .term = event.term};
      return;
    case ElectionEvent::Kind::kFollower: leader_ = event.leader; return;
    case ElectionEvent::Kind::kLost:
      to_begin_.reset();
      EndPresent(now);
      return;
  }
}

bool Reigns::Begin(Reign reign, std::unique_ptr<MetaStore>&& store, std::unique_ptr<Core>&& core,
                   absl::Time now) {
  if (is_shut_down_ || !to_begin_.has_value() || to_begin_->reign != reign) return false;
  to_begin_.reset();
  present_ = std::make_unique<ReignState>(reign, std::move(store), std::move(core), options_, now);
  silent_since_ = absl::InfiniteFuture();
  has_let_nodes_go_ = false;
  return true;
}

void Reigns::EndPresent(absl::Time now) {
  if (present_ == nullptr) return;
  present_->handlers.Depose(Refusal(), now);
  ended_.push_back(std::move(present_));
}

void Reigns::Shutdown(absl::Time now) {
  is_shut_down_ = true;
  to_begin_.reset();
  if (present_ != nullptr) present_->handlers.Shutdown(now);
}

// --- Requests.

absl::StatusOr<Reigns::Admission> Reigns::Admit(absl::Time now) const {
  if (present_ == nullptr || leadership_.ReignAt(now) != present_->reign) return Refusal();
  return Admission{.handlers = &present_->handlers, .reign = present_->reign};
}

absl::Status Reigns::Refusal() const { return is_shut_down_ ? ShuttingDown() : NotLeader(leader_); }

Handlers* Reigns::Find(Reign reign) const {
  ReignState* const state = FindState(reign);
  return state == nullptr ? nullptr : &state->handlers;
}

ReignState* Reigns::FindState(Reign reign) const {
  if (present_ != nullptr && present_->reign == reign) return present_.get();
  for (const auto& state : ended_) {
    if (state->reign == reign) return state.get();
  }
  return nullptr;
}

// --- Durable state.

std::optional<Reigns::DueWrite> Reigns::TakeWrite(absl::Time now) {
  if (present_ == nullptr || present_->is_writing) return std::nullopt;
  return TakeWriteOf(*present_, now);
}

std::optional<Reigns::DueWrite> Reigns::TakeWriteOf(ReignState& state, absl::Time now) const {
  if (state.store == nullptr) return std::nullopt;
  std::optional<MetaBatch> batch = state.handlers.TakeWrite(now);
  if (!batch.has_value()) return std::nullopt;
  state.is_writing = true;
  return DueWrite{.reign = state.reign, .store = state.store.get(), .batch = *std::move(batch)};
}

void Reigns::OnWritten(Reign reign, const absl::Status& status, absl::Time now) {
  ReignState* const state = FindState(reign);
  MP_CHECK(state != nullptr && state->is_writing, "a write of no reign has ended", reign.value);
  const bool is_superseded = ReasonOf(status) == ErrorReason::kStaleTerm;
  // The store learns of it before the election does, at times. Others are told to ask elsewhere,
  // and a call that has changed something in vain is told no more than that.
  if (is_superseded && mastership_ == Mastership::kElected && state == present_.get()) {
    EndPresent(now);
  }
  state->handlers.OnWritten(status, now);
}

std::optional<Reigns::DueWrite> Reigns::EndWrite(Reign reign, bool goes_on, absl::Time now) {
  ReignState* const state = FindState(reign);
  MP_CHECK(state != nullptr && state->is_writing, "a write of no reign has ended", reign.value);
  std::optional<DueWrite> next;
  if (goes_on && state == present_.get()) next = TakeWriteOf(*state, now);
  state->is_writing = next.has_value();
  return next;
}

bool Reigns::is_writing() const {
  const auto is_busy = [](const auto& state) { return state->is_writing; };
  return (present_ != nullptr && is_busy(present_)) ||
         std::any_of(ended_.begin(), ended_.end(), is_busy);
}

// --- Time.

void Reigns::Observe(absl::Time now) {
  if (present_ != nullptr) WatchSilence(now);
}

void Reigns::Tick(absl::Time now) {
  Observe(now);
  if (present_ != nullptr) present_->handlers.Tick(now);
  // Their sessions have a deadline to send the last message by.
  for (const auto& state : ended_) state->handlers.Tick(now);
}

void Reigns::WatchSilence(absl::Time now) {
  if (is_shut_down_) return;
  if (leadership_.ReignAt(now) == present_->reign) {
    if (silent_since_ != absl::InfiniteFuture()) present_->handlers.Resume();
    silent_since_ = absl::InfiniteFuture();
    has_let_nodes_go_ = false;
    return;
  }
  if (silent_since_ == absl::InfiniteFuture()) {
    silent_since_ = now;
    present_->handlers.FallSilent(Refusal(), now);
  }
  // Not at once: nodes need not upload their inventories for an etcd that is restarted. Those that
  // find another leader meanwhile go by themselves.
  if (!has_let_nodes_go_ && now >= silent_since_ + options_.session_timeout) {
    has_let_nodes_go_ = true;
    present_->handlers.RefuseSessions(Refusal(), now);
  }
  present_->core->ExcuseAbsences(now);
}

absl::Time Reigns::NextWakeup() const {
  absl::Time at = absl::InfiniteFuture();
  if (present_ != nullptr) at = present_->handlers.NextWakeup();
  for (const auto& state : ended_) at = std::min(at, state->handlers.NextWakeup());
  return at;
}

bool Reigns::has_ended() const { return std::any_of(ended_.begin(), ended_.end(), IsFree); }

std::vector<std::unique_ptr<ReignState>> Reigns::TakeEnded() {
  const auto free = std::stable_partition(ended_.begin(), ended_.end(),
                                          [](const auto& state) { return !IsFree(state); });
  std::vector<std::unique_ptr<ReignState>> taken(std::make_move_iterator(free),
                                                 std::make_move_iterator(ended_.end()));
  ended_.erase(free, ended_.end());
  return taken;
}

}  // namespace moonpool::master
