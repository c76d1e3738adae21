// What eviction keeps per object: 12 bytes, shared by the policies of one tier (a slot belongs to
// one tenant, so to one policy). Pages, so that growth never copies and an idle tier costs nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace moonpool::master {

// Index of an object's slot in the object table: dense, reused.
using SlotIndex = uint32_t;
inline constexpr SlotIndex kNoSlot = 0xffffffff;

struct SlotState {
  SlotIndex hotter = kNoSlot;
  SlotIndex colder = kNoSlot;
  uint16_t epoch = 0;  // of the last use, for policies that count epochs
  uint8_t flags = 0;   // each policy's own
};

class SlotTable {
 public:
  // Precondition: Ensure() was called for `slot` or one above it.
  SlotState& operator[](SlotIndex slot) { return (*pages_[slot / kPageSlots])[slot % kPageSlots]; }

  void Ensure(SlotIndex slot) {
    while (slot / kPageSlots >= pages_.size()) pages_.push_back(std::make_unique<Page>());
  }

  size_t bytes() const { return pages_.size() * sizeof(Page); }

 private:
  static constexpr SlotIndex kPageSlots = 4096;
  using Page = std::array<SlotState, kPageSlots>;

  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace moonpool::master
