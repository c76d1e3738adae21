// A doubly linked list through the slot table: a hot end, where new and used objects enter, and a
// cold end, where victims come from. Two words; every operation is O(1).
#pragma once

#include "master/core/eviction/slot_table.h"

namespace moonpool::master {

class SlotList {
 public:
  bool empty() const { return hot_ == kNoSlot; }
  SlotIndex hot() const { return hot_; }
  SlotIndex cold() const { return cold_; }

  void PushHot(SlotTable& slots, SlotIndex slot) {
    slots[slot].hotter = kNoSlot;
    slots[slot].colder = hot_;
    (hot_ == kNoSlot ? cold_ : slots[hot_].hotter) = slot;
    hot_ = slot;
  }

  void PushCold(SlotTable& slots, SlotIndex slot) {
    slots[slot].colder = kNoSlot;
    slots[slot].hotter = cold_;
    (cold_ == kNoSlot ? hot_ : slots[cold_].colder) = slot;
    cold_ = slot;
  }

  void Unlink(SlotTable& slots, SlotIndex slot) {
    const SlotState& state = slots[slot];
    (state.hotter == kNoSlot ? hot_ : slots[state.hotter].colder) = state.colder;
    (state.colder == kNoSlot ? cold_ : slots[state.colder].hotter) = state.hotter;
  }

  // Moves all of `other` to the hot end of this list, in its order.
  void SpliceHot(SlotTable& slots, SlotList& other) {
    if (other.empty()) return;
    if (empty()) {
      cold_ = other.cold_;
    } else {
      slots[other.cold_].colder = hot_;
      slots[hot_].hotter = other.cold_;
    }
    hot_ = other.hot_;
    other = SlotList();
  }

 private:
  SlotIndex hot_ = kNoSlot;
  SlotIndex cold_ = kNoSlot;
};

}  // namespace moonpool::master
