// The free space of one segment: which bytes belong to nobody.
//
// Best fit with coalescing over two ordered views of the free ranges; what is allocated is not
// recorded here, its owners know it. Everything is rounded up to 64 bytes. O(log ranges).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace moonpool::master {

inline constexpr uint64_t kAllocationUnit = 64;

class ExtentAllocator {
 public:
  // What is left of the capacity below a multiple of 64 is not used.
  explicit ExtentAllocator(uint64_t capacity_bytes);

  static constexpr uint64_t Rounded(uint64_t bytes) {
    return (bytes + kAllocationUnit - 1) / kAllocationUnit * kAllocationUnit;
  }

  // The offset of `bytes` > 0 contiguous bytes, or nullopt.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  // Takes exactly this range; false when any byte of it is taken, or it is not in the segment, or
  // does not start on a unit.
  bool Reserve(uint64_t offset, uint64_t bytes);
  // Gives back what Allocate or Reserve gave.
  void Free(uint64_t offset, uint64_t bytes);

  uint64_t capacity_bytes() const { return capacity_; }
  uint64_t free_bytes() const { return free_; }
  uint64_t used_bytes() const { return capacity_ - free_; }
  uint64_t largest_free_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  // Free ranges, offset to length, for checks.
  const absl::btree_map<uint64_t, uint64_t>& free_ranges() const { return by_offset_; }

 private:
  void Add(uint64_t offset, uint64_t length);
  void Drop(absl::btree_map<uint64_t, uint64_t>::iterator range);

  uint64_t capacity_;
  uint64_t free_ = 0;
  absl::btree_map<uint64_t, uint64_t> by_offset_;
  absl::btree_set<std::pair<uint64_t, uint64_t>> by_size_;  // length, offset
};

}  // namespace moonpool::master
