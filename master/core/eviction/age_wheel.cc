#include "master/core/eviction/age_wheel.h"

#include <bit>

namespace moonpool::master {

void AgeWheel::MarkBucket(uint16_t epoch) {
  const uint32_t bucket = epoch % kBuckets;
  const uint64_t bit = uint64_t{1} << (bucket % 64);
  uint64_t& word = occupied_[bucket / 64];
  word = buckets_[bucket].empty() ? word & ~bit : word | bit;
}

void AgeWheel::LinkHot(SlotTable& slots, SlotIndex slot, uint16_t age) {
  if (age >= kBuckets) return old_.PushHot(slots, slot);
  const uint16_t epoch = slots[slot].epoch;
  BucketOf(epoch).PushHot(slots, slot);
  MarkBucket(epoch);
}

void AgeWheel::LinkCold(SlotTable& slots, SlotIndex slot, uint16_t age) {
  if (age >= kBuckets) return old_.PushCold(slots, slot);
  const uint16_t epoch = slots[slot].epoch;
  BucketOf(epoch).PushCold(slots, slot);
  MarkBucket(epoch);
}

void AgeWheel::Unlink(SlotTable& slots, SlotIndex slot) {
  // A bucket that grew old was spliced into old_ without touching its members, so the epoch alone
  // does not tell where a slot is linked. Only the ends of a list need to know.
  const uint16_t epoch = slots[slot].epoch;
  SlotList& bucket = BucketOf(epoch);
  if (bucket.hot() == slot || bucket.cold() == slot) {
    bucket.Unlink(slots, slot);
    MarkBucket(epoch);
  } else {
    old_.Unlink(slots, slot);  // or from the middle of the bucket: neither end is touched
  }
}

void AgeWheel::Advance(SlotTable& slots, uint16_t now) {
  old_.SpliceHot(slots, BucketOf(now));
  MarkBucket(now);
}

SlotIndex AgeWheel::Oldest(uint16_t now) const {
  if (!old_.empty()) return old_.cold();
  // From the bucket after `now`, the oldest, around the wheel to `now` itself. The first word is
  // visited twice: its upper bits first, the whole of it last.
  const uint32_t first = (now + 1u) % kBuckets;
  const uint32_t words = kBuckets / 64;
  for (uint32_t i = 0; i <= words; ++i) {
    const uint32_t word = (first / 64 + i) % words;
    uint64_t bits = occupied_[word];
    if (i == 0) bits &= ~uint64_t{0} << (first % 64);
    if (bits == 0) continue;
    return buckets_[word * 64 + static_cast<uint32_t>(std::countr_zero(bits))].cold();
  }
  return kNoSlot;
}

}  // namespace moonpool::master
