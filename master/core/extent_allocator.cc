#include "master/core/extent_allocator.h"

#include "common/check.h"

namespace moonpool::master {

ExtentAllocator::ExtentAllocator(uint64_t capacity_bytes)
    : capacity_(capacity_bytes / kAllocationUnit * kAllocationUnit) {
  if (capacity_ > 0) Add(0, capacity_);
  free_ = capacity_;
}

std::optional<uint64_t> ExtentAllocator::Allocate(uint64_t bytes) {
  const uint64_t length = Rounded(bytes);
  const auto fit = by_size_.lower_bound({length, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [range_length, offset] = *fit;
  // The rest first: a tree that runs empty gives its last node back, and needs one again.
  if (range_length > length) Add(offset + length, range_length - length);
  Drop(by_offset_.find(offset));
  free_ -= length;
  return offset;
}

bool ExtentAllocator::Reserve(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || bytes > capacity_ || offset > capacity_ || offset % kAllocationUnit != 0) {
    return false;
  }
  const uint64_t length = Rounded(bytes);
  auto range = by_offset_.upper_bound(offset);
  if (range == by_offset_.begin()) return false;
  --range;
  const auto [start, range_length] = *range;
  const uint64_t end = start + range_length;
  if (offset >= end || length > end - offset) return false;
  Drop(range);
  if (offset > start) Add(start, offset - start);
  if (end > offset + length) Add(offset + length, end - offset - length);
  free_ -= length;
  return true;
}

void ExtentAllocator::Free(uint64_t offset, uint64_t bytes) {
  uint64_t start = offset;
  uint64_t end = offset + Rounded(bytes);
  free_ += end - start;
  auto after = by_offset_.lower_bound(offset);
  if (after != by_offset_.begin()) {
    auto before = std::prev(after);
    const uint64_t before_end = before->first + before->second;
    MP_CHECK(before_end <= start, "freed twice", offset, bytes);
    if (before_end == start) {
      start = before->first;
      Drop(before);
    }
  }
  after = by_offset_.lower_bound(offset);
  if (after != by_offset_.end()) {
    MP_CHECK(after->first >= end, "freed twice", offset, bytes);
    if (after->first == end) {
      end += after->second;
      Drop(after);
    }
  }
  MP_CHECK(end <= capacity_, "freed outside the segment", offset, bytes);
  Add(start, end - start);
}

void ExtentAllocator::Add(uint64_t offset, uint64_t length) {
  by_offset_.emplace(offset, length);
  by_size_.emplace(length, offset);
}

void ExtentAllocator::Drop(absl::btree_map<uint64_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

}  // namespace moonpool::master
