// Which generations may not be written here any more: those that this node was told to forget, and
// those that are too old for any open grant. A writer who is late must not bring one back: its
// master has said that it is gone, and knows nothing of what is sealed afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/btree_set.h"
#include "common/types.h"

namespace moonpool::storage_node {

// What a master says of its grants with every order to forget. Zeros: a master of an older release,
// which says nothing.
struct GrantWindow {
  Generation oldest_open = {};  // nothing below it can be written any more
  Generation newest = {};       // granted so far
};

// As many as a master has grants open. About 3 MB, and only while an old grant stays open.
inline constexpr size_t kFreedGenerationsMax = 1 << 18;

// Exact within the window, and only what is inside is kept: what is older is refused anyway, and
// what is newer was never granted, so that whoever forged it blocks nobody's real grant. Where a
// bound makes it forget, all that is as old is refused; but never more than the master vouched for.
// A writer who is refused starts again, under a newer generation. Not thread-safe.
class FreedGenerations {
 public:
  explicit FreedGenerations(size_t size_max = kFreedGenerationsMax) : size_max_(size_max) {}

  // Nothing may be written until RaiseAbove: an earlier life of this node knew what was freed, and
  // this one has to hear from a master which grants it cannot judge.
  void RefuseAll() { refuses_all_ = true; }
  // That wait is over, and of all that was granted so far nothing may be written any more. Without
  // RefuseAll before it nothing happens.
  void RaiseAbove(Generation newest) {
    if (!std::exchange(refuses_all_, false)) return;
    if (newest != Generation{}) RaiseTo({.oldest_open = Generation{newest.value + 1}});
  }

  // The master is of the newest term.
  void RaiseTo(const GrantWindow& window) { open_from_ = std::max(open_from_, window.oldest_open); }
  void Add(Generation generation, const GrantWindow& window) {
    const bool is_granted = generation <= window.newest || window.newest == Generation{};
    if (generation < open_from_ || !is_granted) return;
    freed_.insert(generation);
    // A few for each, so that no call takes long. The new one stops it.
    for (int i = 0; i < kDroppedPerAdd && *freed_.begin() < open_from_; ++i) DropOldest();
    if (freed_.size() <= size_max_) return;
    refused_up_to_ = std::max(refused_up_to_, std::min(*freed_.begin(), window.newest));
    DropOldest();
  }

  // nullptr: it may be written. Else the reason, for "generation 7.42 ...".
  const char* WhyRefused(Generation generation) const {
    if (refuses_all_) {
      return "cannot be judged: this node has restarted and has not heard from a master since";
    }
    if (generation < open_from_) return "is over: the master has no grant open that is as old";
    if (freed_.contains(generation)) return "was given up: the master has had it forgotten here";
    if (generation > refused_up_to_) return nullptr;
    return "is too old: more generations were freed than this node remembers, perhaps this one too";
  }
  size_t size() const { return freed_.size(); }

 private:
  static constexpr int kDroppedPerAdd = 2;

  void DropOldest() { freed_.erase(freed_.begin()); }

  const size_t size_max_;
  bool refuses_all_ = false;
  Generation open_from_ = {};
  Generation refused_up_to_ = {};
  absl::btree_set<Generation> freed_;
};

}  // namespace moonpool::storage_node
