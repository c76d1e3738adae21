#include "master/handlers/watcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "master/handlers/handlers.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

v1::ErrorReason ReasonOf(DeathCause cause) {
  switch (cause) {
    case DeathCause::kEvicted: return v1::EVICTED;
    case DeathCause::kRemoved: return v1::REMOVED;
    case DeathCause::kNodeLost: return v1::NODE_LOST;
    case DeathCause::kDamaged: return v1::CHECKSUM_MISMATCH;
    case DeathCause::kSuperseded: return v1::STALE_GENERATION;
    case DeathCause::kExpired: return v1::EXPIRED;  // of grants only, which are no events
    case DeathCause::kAborted: return v1::GRANT_ABORTED;
  }
  return v1::ERROR_REASON_UNSPECIFIED;
}

v1::EventReset ToProto(EventCursor::Reset reset) {
  switch (reset) {
    case EventCursor::Reset::kStart: return v1::RESET_START;
    case EventCursor::Reset::kTooOld: return v1::RESET_TOO_OLD;
    case EventCursor::Reset::kOtherLog: return v1::RESET_OTHER_LOG;
    case EventCursor::Reset::kTooSlow: return v1::RESET_TOO_SLOW;
  }
  return v1::EVENT_RESET_UNSPECIFIED;
}

void Write(const Core& core, const Event& event, uint64_t sequence, v1::Event* out) {
  out->set_sequence(sequence);
  out->set_namespace_(core.NamespaceName(event.name_space));
  out->set_key(event.key.data(), event.key.size());
  out->set_parent(event.parent.data(), event.parent.size());
  out->set_size_bytes(event.size_bytes);
  out->set_generation(event.generation.value);
  for (const EventPlace& place : event.places) {
    v1::EventPlace* const to = out->add_places();
    to->set_node(place.node.data(), place.node.size());
    to->set_medium(place.medium.data(), place.medium.size());
  }
  if (event.kind == EventKind::kStored) {
    out->set_kind(v1::EVENT_STORED);
  } else {
    out->set_kind(v1::EVENT_REMOVED);
    out->set_reason(ReasonOf(event.cause));
  }
}

absl::Status Stalled(absl::Duration stall) {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                   absl::StrCat("the stream took nothing for ", absl::FormatDuration(stall)),
                   {.hint = "read faster; with its token it may go on where it was"});
}

}  // namespace

Watcher::Watcher(WatcherTable& table, EventCursorOptions options, OnReady on_ready, absl::Time now)
    : table_(&table), cursor_(std::move(options)), on_ready_(std::move(on_ready)), said_at_(now) {
  table_->open_.push_back(this);
}

Watcher::~Watcher() {
  if (!is_ended()) table_->Remove(this);
}

bool Watcher::TakeMessage(absl::Time now, v1::EventBatch* batch) {
  if (is_ended() || is_sending_) return false;
  while (is_due_) {
    if (cursor_.HasMore(table_->core_) && !table_->TakeTurn(this)) return false;
    const EventCursor::Step step = Tell(batch);
    is_due_ = step.has_more;
    // What concerns others only is passed over: the next message, or sign of life, says up to
    // where.
    const bool has_news = !batch->events().empty() ||
                          batch->reset() != v1::EVENT_RESET_UNSPECIFIED ||
                          step.is_whole != has_said_whole_;
    if (!has_news && !is_silent_for_long(now)) continue;
    has_said_whole_ = step.is_whole;
    said_at_ = now;
    is_sending_ = true;
    return true;
  }
  return false;
}

EventCursor::Step Watcher::Tell(v1::EventBatch* batch) {
  const HandlersOptions& options = table_->options_;
  const Core& core = table_->core_;
  HandlerCounts& counts = table_->counts_;
  batch->Clear();
  SetVersion(batch->mutable_version());
  batch->set_heartbeat_interval_ms(ToWireMs(options.event_heartbeat));
  const EventCursor::Step step = cursor_.Advance(
      core, options.events_per_message,
      [&](EventCursor::Reset why) {
        batch->set_reset(ToProto(why));
        ++counts.event_resets[static_cast<size_t>(why)];
        if (cursor_.is_live_only()) return;
        v1::Event* const cleared = batch->add_events();
        cleared->set_kind(v1::EVENT_CLEARED);
        cleared->set_sequence(core.events().last().sequence);
      },
      [&](const Event& event, uint64_t sequence) {
        Write(core, event, sequence, batch->add_events());
      });
  if (step.is_whole) {
    batch->set_whole(true);
    v1::EventToken* const token = batch->mutable_token();
    token->set_term(core.term().value);
    token->set_log(step.last.log);
    token->set_sequence(step.last.sequence);
  }
  counts.events_sent += static_cast<uint64_t>(batch->events_size());
  table_->Spend(step.cost);
  return step;
}

void Watcher::Sent(absl::Time now) {
  is_sending_ = false;
  said_at_ = now;
}

bool Watcher::is_silent_for_long(absl::Time now) const {
  return now >= said_at_ + table_->options_.event_heartbeat;
}

void Watcher::EndIfStalled(absl::Time now) {
  const absl::Duration stall = table_->options_.event_stall;
  if (is_sending_ && now >= said_at_ + stall) End(Stalled(stall));
}

void Watcher::Tick(absl::Time now) {
  if (is_sending_) return;
  is_due_ = cursor_.HasMore(table_->core_) || is_silent_for_long(now);
  if (is_due_) on_ready_();
}

void Watcher::End(const absl::Status& status) {
  if (is_ended()) return;
  end_status_ = status;
  std::exchange(table_, nullptr)->Remove(this);
  on_ready_();
}

WatcherTable::~WatcherTable() { EndAll(ShuttingDown()); }

absl::StatusOr<std::unique_ptr<Watcher>> WatcherTable::Open(EventCursorOptions options,
                                                            Watcher::OnReady on_ready,
                                                            absl::Time now) {
  if (!core_.events().is_possible()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                     "this master keeps no events",
                     {.hint = "start it with a --limit-events that is not 0"});
  }
  if (open_.size() >= options_.max_watchers) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat(open_.size(), " streams of events are open"),
                     {.hint = "raise the master's --limit-watchers"});
  }
  core_.KeepEvents(true);
  last_open_at_ = now;
  return std::make_unique<Watcher>(*this, std::move(options), std::move(on_ready), now);
}

bool WatcherTable::TakeTurn(const Watcher* watcher) {
  if (budget_ > 0) return true;
  if (next_turn_ == nullptr) next_turn_ = watcher;
  return false;
}

void WatcherTable::Spend(size_t cost) { budget_ -= std::min(budget_, cost); }

void WatcherTable::BeginTurns(absl::Time now) {
  if (now < turns_at_) return;  // a tick between: the core has more to do
  turns_at_ = now + options_.tick_interval;
  budget_ = options_.events_per_tick;
  if (next_turn_ == nullptr) return;
  std::rotate(open_.begin(), std::find(open_.begin(), open_.end(), next_turn_), open_.end());
  next_turn_ = nullptr;
}

void WatcherTable::Remove(const Watcher* watcher) {
  if (next_turn_ == watcher) next_turn_ = nullptr;
  std::erase(open_, watcher);
}

void WatcherTable::Tick(absl::Time now) {
  // One that ends takes itself out.
  for (size_t i = 0; i < open_.size();) {
    Watcher* const watcher = open_[i];
    watcher->EndIfStalled(now);
    if (i < open_.size() && open_[i] == watcher) ++i;
  }
  BeginTurns(now);
  for (Watcher* const watcher : open_) watcher->Tick(now);
  if (!open_.empty()) {
    last_open_at_ = now;
  } else if (now >= last_open_at_ + options_.event_memory) {
    core_.KeepEvents(false);  // nobody has come back for them
  }
}

void WatcherTable::EndAll(const absl::Status& status) {
  while (!open_.empty()) open_.back()->End(status);
}

}  // namespace moonpool::master
