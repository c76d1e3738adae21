#include "master/core/event_cursor.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace moonpool::master {
namespace {

// Events of other namespaces are passed over, so many for each that may be told.
constexpr size_t kLooksPerEvent = 8;
// What is passed over costs so much less than what is told.
constexpr size_t kLooksPerCost = 16;

}  // namespace

std::optional<EventCursor::Reset> EventCursor::Locate(const EventLog& log) {
  std::optional<Reset> reset;
  if (!at_.has_value()) {
    at_ = options_.resume;
    if (!at_.has_value()) {
      reset = Reset::kStart;
    } else if (at_->log != log.id()) {
      reset = Reset::kOtherLog;
    } else if (!log.Reaches(*at_)) {
      reset = Reset::kTooOld;
    }
  } else if (!log.Reaches(*at_)) {
    reset = Reset::kTooSlow;
  }
  if (!reset.has_value()) return reset;
  at_ = log.last();
  if (!options_.is_live_only) walks_at_ = 0;
  return reset;
}

EventCursor::Step EventCursor::Advance(const Core& core, size_t events_max, OnReset on_reset,
                                       OnEvent on_event) {
  if (const std::optional<Reset> reset = Locate(core.events())) on_reset(*reset);
  if (!only_.has_value() && !options_.name_space.empty()) {
    only_ = core.FindNamespace(options_.name_space);
  }
  size_t cost = 0;
  if (walks_at_.has_value()) cost += Walk(core, events_max, on_event);
  cost += Follow(core, events_max, on_event);
  return Step{.is_whole = !walks_at_.has_value() && at_->sequence >= whole_at_,
              .has_more = HasMore(core),
              .last = *at_,
              .cost = cost};
}

bool EventCursor::HasMore(const Core& core) const {
  return !at_.has_value() || walks_at_.has_value() || at_->sequence + 1 < core.events().next();
}

size_t EventCursor::Walk(const Core& core, size_t events_max, OnEvent on_event) {
  const uint64_t now = core.events().last().sequence;
  whole_at_ = now;
  if (!options_.name_space.empty() && !only_.has_value()) {
    walks_at_.reset();  // what comes there will be an event
    return 0;
  }
  std::vector<Event> stored;
  const uint32_t from = *walks_at_;
  walks_at_ = core.StoredFrom(from, only_, events_max, &stored);
  for (const Event& event : stored) on_event(event, now);
  const size_t looks = walks_at_.has_value() ? *walks_at_ - from : stored.size();
  return stored.size() + looks / kLooksPerCost;
}

size_t EventCursor::Follow(const Core& core, size_t events_max, OnEvent on_event) {
  const EventLog& log = core.events();
  const size_t looks_max = kLooksPerEvent * events_max;
  size_t looks = looks_max;
  size_t told = 0;
  for (; at_->sequence + 1 < log.next() && told < events_max && looks > 0; --looks) {
    const Event& event = log[++at_->sequence];
    if (!IsWanted(event)) continue;
    on_event(event, at_->sequence);
    ++told;
  }
  return told + (looks_max - looks - told) / kLooksPerCost;
}

bool EventCursor::IsWanted(const Event& event) const {
  return options_.name_space.empty() || (only_.has_value() && event.name_space == *only_);
}

}  // namespace moonpool::master
