// How far one follower of events has come, and what it is told next.
//
//   EventCursor cursor({.resume = token});
//   const EventCursor::Step step = cursor.Advance(
//       core, 512, [&](EventCursor::Reset why) { known.clear(); },
//       [&](const Event& event, uint64_t sequence) { ...add or remove event.key... });
//   // a whole set when step.is_whole; then step.last is the token to go on from, in another cursor
//
// Without a token that the log reaches it begins with a walk over all that is stored, in slices.
// With each slice come the events since the one before. Applied in this order, stored = there,
// removed = not there, they make up the set of what is stored once the walk is over: of a key that
// has events the last one decides, and all others are as their slice says. So the log need only
// reach from one step to the next. Who is slower than that begins anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "master/core/core.h"
#include "master/core/event_log.h"

namespace moonpool::master {

struct EventCursorOptions {
  std::string name_space = {};  // only its events, also when it comes later; empty = all
  std::optional<EventToken> resume = {};
  bool is_live_only = false;  // never walks: what happens from now on, or from the token on
};

inline constexpr size_t kEventResets = 4;
// In the order of EventCursor::Reset, as metrics name them.
inline constexpr std::array<absl::string_view, kEventResets> kEventResetNames = {
    "start", "too_old", "other_log", "too_slow"};

// Externally serialised, with the core.
class EventCursor {
 public:
  // Why all that was said before is void. kStart: nothing was.
  enum class Reset : uint8_t { kStart, kTooOld, kOtherLog, kTooSlow };
  struct Step {
    bool is_whole = false;  // what was told makes up the set of what is stored
    bool has_more = false;  // now
    EventToken last = {};   // up to where it was told
    size_t cost = 0;        // in events: those that were told, and what was looked at for them
  };
  using OnReset = absl::FunctionRef<void(Reset why)>;
  using OnEvent = absl::FunctionRef<void(const Event&, uint64_t sequence)>;

  explicit EventCursor(EventCursorOptions options) : options_(std::move(options)) {}

  // At most twice `events_max` events: of the walk, and of the log. `on_reset` at most once, before
  // them. An event of the walk has the number of the last one that it is as new as.
  Step Advance(const Core& core, size_t events_max, OnReset on_reset, OnEvent on_event);
  // There is something to tell.
  bool HasMore(const Core& core) const;
  bool is_live_only() const { return options_.is_live_only; }

 private:
  std::optional<Reset> Locate(const EventLog& log);
  // What they cost.
  size_t Walk(const Core& core, size_t events_max, OnEvent on_event);
  size_t Follow(const Core& core, size_t events_max, OnEvent on_event);
  bool IsWanted(const Event& event) const;

  const EventCursorOptions options_;
  std::optional<EventToken> at_;      // none before the first step
  std::optional<uint32_t> walks_at_;  // in a walk
  uint64_t whole_at_ = 0;             // from this event on the walk's set is whole
  std::optional<NamespaceId> only_;   // once there is one of that name
};

}  // namespace moonpool::master
