// Objects whose replicas are to be looked at, the most urgent first: too few of them, too many, or
// one in the wrong place. What is to be done is decided when an object's turn comes, by what is
// true then; the queue only says that there is something.
//
// An object stands here once, so the queue is never longer than the table of objects. Everything is
// O(1), but for those that wait for a time. After a fail-over most objects may stand here for a
// moment: pages, so that growth copies nothing, and memory goes back when they leave.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "master/core/eviction/slot_table.h"

namespace moonpool::master {

// Lower is served first. Of those with as many replicas left the ones that were read lately.
enum class RepairRank : uint8_t {
  kOneLeftHotRank,
  kOneLeftColdRank,
  kTwoLeftHotRank,
  kTwoLeftColdRank,
  kMoreLeftHotRank,
  kMoreLeftColdRank,
  kTrimRank,      // it has more than it shall have
  kDrainHotRank,  // a replica is to leave its node
  kDrainColdRank,
  kExtraRank,  // it is read so often that another would help
};
using enum RepairRank;
inline constexpr size_t kRepairRanks = static_cast<size_t>(kExtraRank) + 1;

class RepairQueue {
 public:
  // At the end of its rank. One that is there already keeps its place, unless this is more urgent;
  // one that waits does so no more.
  void Add(SlotIndex slot, RepairRank rank);
  // The most urgent one leaves the queue.
  struct Turn {
    SlotIndex slot = kNoSlot;
    RepairRank rank = kOneLeftHotRank;
  };
  std::optional<Turn> Take();
  // It is not in the queue, and is the next of its rank.
  void PutBack(const Turn& turn);
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

  bool contains(SlotIndex slot) const { return Find(slot) != nullptr; }
  // It is there and waits for nothing but its turn.
  bool IsReady(SlotIndex slot) const {
    const Link* const link = Find(slot);
    return link != nullptr && !IsAsleep(*link) && !IsWaiting(*link);
  }
  // It stands there since a replica is to leave its node, and for nothing more urgent.
  bool IsOfDrain(SlotIndex slot) const;
  size_t size() const { return size_; }
  size_t waiting() const { return waiting_.size(); }
  size_t CountOf(RepairRank rank) const { return lists_[static_cast<size_t>(rank)].size; }
  size_t bytes() const { return used_pages_ * sizeof(Page); }

 private:
  struct Link {
    absl::Time until = absl::InfinitePast();  // in the past: it does not wait
    SlotIndex before = kNoSlot;
    SlotIndex after = kNoSlot;
    uint32_t sleeps_since = 0;  // the night in which it fell asleep; over: it is awake
    RepairRank rank = kOneLeftHotRank;
    bool is_here = false;
  };
  static_assert(sizeof(Link) == 32);
  static constexpr SlotIndex kPageSlots = 512;
  struct Page {
    std::array<Link, kPageSlots> links;
    uint32_t used = 0;
  };
  struct List {
    SlotIndex first = kNoSlot;
    SlotIndex last = kNoSlot;
    size_t size = 0;
  };

  // nullptr: not in the queue.
  const Link* Find(SlotIndex slot) const;
  Link& At(SlotIndex slot) { return pages_[slot / kPageSlots]->links[slot % kPageSlots]; }
  // Its link, in a page that may be a new one.
  Link& Place(SlotIndex slot, const Link& link);

  bool IsAsleep(const Link& link) const { return link.sleeps_since == night_; }
  static bool IsWaiting(const Link& link) { return link.until != absl::InfinitePast(); }
  List& ListOf(const Link& link);
  void Append(SlotIndex slot, Link link);
  void Unlink(SlotIndex slot, const Link& link);

  std::vector<std::unique_ptr<Page>> pages_;  // nullptr where no slot is used
  size_t used_pages_ = 0;
  size_t size_ = 0;
  std::array<List, kRepairRanks> lists_ = {};
  std::array<List, kRepairRanks> asleep_ = {};
  absl::btree_set<std::pair<absl::Time, SlotIndex>> waiting_;
  uint32_t night_ = 1;
};

}  // namespace moonpool::master
