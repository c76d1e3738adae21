// Who knows what is stored from events alone.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "master/core/event_cursor.h"

namespace moonpool::master {

class EventFollower {
 public:
  explicit EventFollower(EventCursorOptions options = {}) : cursor_(std::move(options)) {}

  // One step.
  EventCursor::Step Advance(const Core& core, size_t events_max = 512) {
    last_ = cursor_.Advance(
        core, events_max,
        [&](EventCursor::Reset why) {
          ++resets_[why];
          stored_.clear();
        },
        [&](const Event& event, uint64_t) {
          ++told_;
          if (event.kind == EventKind::kStored) {
            stored_[std::string(event.key)] = event.generation;
          } else {
            stored_.erase(std::string(event.key));
          }
        });
    return last_;
  }
  // Until there is nothing more to tell.
  void CatchUp(const Core& core, size_t events_max = 512) {
    while (Advance(core, events_max).has_more) {
    }
  }

  // By key: of one namespace, or of several whose keys differ.
  const std::map<std::string, Generation>& stored() const { return stored_; }
  const EventCursor::Step& last() const { return last_; }
  int resets(EventCursor::Reset why) const {
    const auto count = resets_.find(why);
    return count == resets_.end() ? 0 : count->second;
  }
  uint64_t told() const { return told_; }

 private:
  EventCursor cursor_;
  EventCursor::Step last_;
  std::map<std::string, Generation> stored_;
  std::map<EventCursor::Reset, int> resets_;
  uint64_t told_ = 0;
};

}  // namespace moonpool::master
