// One stream of events to one client. The edge takes its messages, one at a time, and says when one
// has gone out:
//
//   ASSIGN_OR_RETURN(auto watcher, handlers.Watch(request, on_ready, now));
//   on_ready ... while (watcher->TakeMessage(now, &batch)) { write it; watcher->Sent(now); }
//   when it is_ended(): finish with end_status()
//
// It holds one message and a place in the log, so who reads slowly costs nothing but that place,
// and begins anew when the log has lost what follows it. Events wait for the next tick, so that
// those of many calls go together. All streams share what may be told between two ticks, so that
// many that have much to say do not keep the pool waiting: who comes too late for it in one is
// first in the next.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "master/core/core.h"
#include "master/core/event_cursor.h"
#include "master/handlers/counts.h"
#include "master/handlers/options.h"
#include "moonpool/v1/events.pb.h"

namespace moonpool::master {

class WatcherTable;

// Externally serialised, with its table. After its end it may outlive that.
class Watcher {
 public:
  // There may be a message, or it has ended. Must not call back into the handlers.
  using OnReady = absl::AnyInvocable<void()>;

  Watcher(WatcherTable& table, EventCursorOptions options, OnReady on_ready, absl::Time now);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // False: none now. Not again before Sent.
  bool TakeMessage(absl::Time now, v1::EventBatch* batch);
  void Sent(absl::Time now);

  bool is_ended() const { return table_ == nullptr; }
  const absl::Status& end_status() const { return end_status_; }

 private:
  friend class WatcherTable;

  void EndIfStalled(absl::Time now);
  // Wakes it when there is something to say, or it has said nothing for long.
  void Tick(absl::Time now);
  // The next part, also when it has nothing in it.
  EventCursor::Step Tell(v1::EventBatch* batch);
  bool is_silent_for_long(absl::Time now) const;
  void End(const absl::Status& status);

  WatcherTable* table_;  // nullptr: it has ended
  EventCursor cursor_;
  OnReady on_ready_;
  absl::Time said_at_;
  bool is_due_ = true;  // since the last tick, or since the last message left something to say
  bool is_sending_ = false;
  bool has_said_whole_ = false;  // in its last message
  absl::Status end_status_;
};

// All that are open.
class WatcherTable {
 public:
  WatcherTable(Core& core, const HandlersOptions& options, HandlerCounts& counts)
      : core_(core), options_(options), counts_(counts), budget_(options.events_per_tick) {}
  ~WatcherTable();

  // RESOURCE_EXHAUSTED/LIMIT_REACHED, FAILED_PRECONDITION/BAD_ARGUMENT: no events are kept.
  absl::StatusOr<std::unique_ptr<Watcher>> Open(EventCursorOptions options,
                                                Watcher::OnReady on_ready, absl::Time now);
  void Tick(absl::Time now);
  void EndAll(const absl::Status& status);

  size_t size() const { return open_.size(); }

 private:
  friend class Watcher;

  // The turn of one that has something to tell; false: not before the next tick.
  bool TakeTurn(const Watcher* watcher);
  void Spend(size_t cost);
  void BeginTurns(absl::Time now);
  void Remove(const Watcher* watcher);

  Core& core_;
  const HandlersOptions& options_;
  HandlerCounts& counts_;
  std::vector<Watcher*> open_;                  // in order of their turns
  const Watcher* next_turn_ = nullptr;          // the first who came too late; nullptr: nobody did
  size_t budget_ = 0;                           // events that may be told until turns begin anew
  absl::Time turns_at_ = absl::InfinitePast();  // then they do
  absl::Time last_open_at_ = absl::InfinitePast();
};

}  // namespace moonpool::master
