// Objects in order of their last use, with room for latecomers.
//
// A chain loses its leaves first, so a parent becomes evictable long after its last use and must
// then take the place of that use, not the hottest or the coldest end: at the hot end it would
// outlive what was used after it, at the cold end a young one would hide everything older. A sorted
// list would do; a wheel of buckets, one per epoch, does it in O(1).
#pragma once

#include <array>
#include <cstdint>

#include "master/core/eviction/slot_list.h"

namespace moonpool::master {

// Time in units of turnover: an epoch ends when 1/32 of the live objects have been inserted. Hits
// and wall clock do not count, so an idle or perfectly hitting cache does not age.
class EpochClock {
 public:
  static constexpr uint32_t kEpochsPerTurnover = 32;

  // Counts one insertion into `live_count` objects; true when a new epoch begins.
  bool OnInsert(uint64_t live_count) {
    if (++inserts_ * kEpochsPerTurnover < live_count) return false;
    inserts_ = 0;
    ++now_;
    return true;
  }
  uint16_t now() const { return now_; }
  // Wraps after 2,048 turnovers: an object that was held for so long looks young once.
  uint16_t AgeOf(uint16_t epoch) const { return static_cast<uint16_t>(now_ - epoch); }

 private:
  uint64_t inserts_ = 0;
  uint16_t now_ = 0;
};

class AgeWheel {
 public:
  // At the hot end of its epoch, SlotState::epoch, which is at most now: the slot was just used.
  void LinkHot(SlotTable& slots, SlotIndex slot, uint16_t age);
  // At the cold end of its epoch: the slot is released, its children are gone.
  void LinkCold(SlotTable& slots, SlotIndex slot, uint16_t age);
  void Unlink(SlotTable& slots, SlotIndex slot);
  // The clock moved on to the epoch `now`.
  void Advance(SlotTable& slots, uint16_t now);
  // The coldest slot, kNoSlot when empty.
  SlotIndex Oldest(uint16_t now) const;

 private:
  static constexpr uint32_t kBuckets = 256;  // 8 turnovers; whatever is older is in old_

  SlotList& BucketOf(uint16_t epoch) { return buckets_[epoch % kBuckets]; }
  void MarkBucket(uint16_t epoch);

  std::array<SlotList, kBuckets> buckets_;
  std::array<uint64_t, kBuckets / 64> occupied_ = {};  // one bit per non-empty bucket
  SlotList old_;
};

}  // namespace moonpool::master
