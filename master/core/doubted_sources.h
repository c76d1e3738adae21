// Replicas that a copy found damaged or missing where it was to be made from. Their nodes have not
// said so (the scrubber has not come by), so the replicas stay; but nothing is copied from them, or
// dropped since they are there, for a while.
//
// Bounded: the oldest is forgotten for a new one, and is found again by the next copy.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/object_table.h"

namespace moonpool::master {

class DoubtedSources {
  using Place = std::pair<SlotIndex, NodeIndex>;

 public:
  static constexpr size_t kMax = 4096;
  explicit DoubtedSources(absl::Duration lasts) : lasts_(lasts) {}

  void Add(SlotIndex slot, Generation generation, NodeIndex node, absl::Time now);
  // What is there now was just copied there. Nothing when there is no doubt.
  void Remove(SlotIndex slot, NodeIndex node) { doubts_.erase(Place{slot, node}); }
  bool Contains(SlotIndex slot, Generation generation, NodeIndex node, absl::Time now) const;
  size_t size() const { return doubts_.size(); }

 private:
  struct Doubt {
    Generation generation = {};
    absl::Time until = {};
  };

  absl::Duration lasts_;
  absl::flat_hash_map<Place, Doubt> doubts_;          // never iterated
  std::deque<std::pair<absl::Time, Place>> by_time_;  // until when; renewed ones stand here again
};

}  // namespace moonpool::master
