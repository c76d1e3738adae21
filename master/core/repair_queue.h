// Objects whose replicas are to be looked at, the most urgent first: too few of them, too many, or
// one in the wrong place. What is to be done is decided when an object's turn comes, by what is
// true then; the queue only says that there is something.
//
// An object stands here once, so the queue is never longer than the table of objects. Everything is
// O(1), but for those that wait for a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "master/core/eviction/slot_table.h"

namespace moonpool::master {

// Lower is served first. The first six: 2 * (replicas left, 1 to 3) - 2, and one more when the
// object was not read lately.
using RepairRank = uint8_t;
inline constexpr RepairRank kTrimRank = 6;      // it has more than it shall have
inline constexpr RepairRank kDrainHotRank = 7;  // a replica is to leave its node
inline constexpr RepairRank kDrainColdRank = 8;
inline constexpr RepairRank kExtraRank = 9;  // it is read so often that another would help
inline constexpr size_t kRepairRanks = 10;

class RepairQueue {
 public:
  // At the end of its rank. One that is there already keeps its place, unless this is more urgent;
  // one that waits does so no more.
  void Add(SlotIndex slot, RepairRank rank);
  // The most urgent one leaves the queue.
  struct Turn {
    SlotIndex slot = kNoSlot;
    RepairRank rank = 0;
  };
  std::optional<Turn> Take();
  // It is not in the queue, and comes back at that time.
  void Postpone(const Turn& turn, absl::Time until);
  // It is not in the queue, and comes back with WakeAll.
  void PutToSleep(const Turn& turn);
  // The same for one that is in the queue; it keeps its rank.
  void Delay(SlotIndex slot, absl::Time until);
  // Those whose time has come are served again, at most so many.
  void Wake(absl::Time now, uint32_t most);
  // All that sleep: nodes have changed. O(ranks).
  void WakeAll();
  // Nothing when it is not there.
  void Remove(SlotIndex slot);

  bool contains(SlotIndex slot) const { return links_.contains(slot); }
  // It is there and waits for nothing but its turn.
  bool IsReady(SlotIndex slot) const {
    const auto link = links_.find(slot);
    return link != links_.end() && !IsAsleep(link->second) && !IsWaiting(link->second);
  }
  size_t size() const { return links_.size(); }
  size_t waiting() const { return waiting_.size(); }
  size_t CountOf(RepairRank rank) const { return lists_[rank].size; }

 private:
  struct Link {
    SlotIndex before = kNoSlot;
    SlotIndex after = kNoSlot;
    RepairRank rank = 0;
    uint32_t sleeps_since = 0;  // the night in which it fell asleep; over: it is awake
    absl::Time until = absl::InfinitePast();  // in the past: it does not wait
  };
  struct List {
    SlotIndex first = kNoSlot;
    SlotIndex last = kNoSlot;
    size_t size = 0;
  };

  bool IsAsleep(const Link& link) const { return link.sleeps_since == night_; }
  static bool IsWaiting(const Link& link) { return link.until != absl::InfinitePast(); }
  List& ListOf(const Link& link);
  void Append(SlotIndex slot, Link link);
  void Unlink(SlotIndex slot, const Link& link);

  absl::flat_hash_map<SlotIndex, Link> links_;  // never iterated
  std::array<List, kRepairRanks> lists_ = {};
  std::array<List, kRepairRanks> asleep_ = {};
  absl::btree_set<std::pair<absl::Time, SlotIndex>> waiting_;
  uint32_t night_ = 1;
};

}  // namespace moonpool::master
