#include "master/core/eviction/lru.h"

namespace moonpool::master {

void LruPolicy::OnInsert(SlotIndex slot, uint64_t /*key_hash*/, SlotIndex /*parent*/,
                         bool evictable) {
  slots_.Ensure(slot);
  ++live_count_;
  if (clock_.OnInsert(live_count_)) wheel_.Advance(slots_, clock_.now());
  slots_[slot].epoch = clock_.now();
  slots_[slot].flags = evictable ? kEvictable : 0;
  if (evictable) wheel_.LinkHot(slots_, slot, /*age=*/0);
}

void LruPolicy::OnAccess(SlotIndex slot) {
  SlotState& state = slots_[slot];
  if (state.flags & kEvictable) wheel_.Unlink(slots_, slot);
  state.epoch = clock_.now();
  if (state.flags & kEvictable) wheel_.LinkHot(slots_, slot, /*age=*/0);
}

void LruPolicy::SetEvictable(SlotIndex slot, bool evictable) {
  SlotState& state = slots_[slot];
  if (evictable == ((state.flags & kEvictable) != 0)) return;
  state.flags = evictable ? kEvictable : 0;
  if (evictable) {
    wheel_.LinkCold(slots_, slot, clock_.AgeOf(state.epoch));
  } else {
    wheel_.Unlink(slots_, slot);
  }
}

void LruPolicy::OnErase(SlotIndex slot, uint64_t /*key_hash*/, EraseCause /*cause*/) {
  if (slots_[slot].flags & kEvictable) wheel_.Unlink(slots_, slot);
  --live_count_;
}

std::optional<SlotIndex> LruPolicy::PickVictim() {
  const SlotIndex oldest = wheel_.Oldest(clock_.now());
  if (oldest == kNoSlot) return std::nullopt;
  return oldest;
}

}  // namespace moonpool::master
