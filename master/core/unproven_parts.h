// Parts that a writer says are sealed, and that their node has not named since its session began,
// though they were granted before. If they were sealed earlier they have been lost since, or the
// inventory would have named them; if later, a report is on its way. They are believed in until the
// node had its time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/object_table.h"

namespace moonpool::master {

class UnprovenParts {
 public:
  struct Owner {
    SlotIndex slot = kNoSlot;
    Generation generation = {};
  };
  struct Due {
    Owner owner = {};
    uint16_t segment = 0;
    uint64_t offset = 0;
  };

  // `until` never falls from one call to the next.
  void Add(const StoredPart& part, const Owner& owner, absl::Time until) {
    const Place place{part.segment, part.offset};
    owners_[place] = owner;
    by_time_.emplace_back(until, place);
  }
  // The node has named what stands there, or it is something else.
  void Prove(const StoredPart& part) { owners_.erase({part.segment, part.offset}); }
  // One that was not named in time leaves the list.
  std::optional<Due> TakeDue(absl::Time now) {
    while (!by_time_.empty() && by_time_.front().first <= now) {
      const Place place = by_time_.front().second;
      by_time_.pop_front();
      const auto due = owners_.find(place);
      if (due == owners_.end()) continue;
      const Owner owner = due->second;
      owners_.erase(due);
      return Due{owner, place.first, place.second};
    }
    return std::nullopt;
  }

 private:
  using Place = std::pair<uint16_t, uint64_t>;  // segment, offset

  absl::flat_hash_map<Place, Owner> owners_;  // never iterated
  std::deque<std::pair<absl::Time, Place>> by_time_;
};

}  // namespace moonpool::master
