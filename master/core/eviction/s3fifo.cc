#include "master/core/eviction/s3fifo.h"

namespace moonpool::master {
namespace {

// SlotState::flags.
constexpr uint8_t kUsesMask = 3;  // saturating count
constexpr uint8_t kInMain = 1 << 2;
constexpr uint8_t kEvictable = 1 << 3;

constexpr uint64_t kSmallShare = 10;  // the small queue has 1 in 10

}  // namespace

void S3FifoPolicy::Link(SlotIndex slot, bool hot) {
  const bool in_main = slots_[slot].flags & kInMain;
  SlotList& queue = in_main ? main_ : small_;
  hot ? queue.PushHot(slots_, slot) : queue.PushCold(slots_, slot);
  ++(in_main ? main_count_ : small_count_);
}

void S3FifoPolicy::Unlink(SlotIndex slot) {
  const bool in_main = slots_[slot].flags & kInMain;
  (in_main ? main_ : small_).Unlink(slots_, slot);
  --(in_main ? main_count_ : small_count_);
}

void S3FifoPolicy::OnInsert(SlotIndex slot, uint64_t key_hash, SlotIndex /*parent*/,
                            bool evictable) {
  slots_.Ensure(slot);
  ++live_count_;
  ghosts_.Resize(live_count_);
  uint8_t flags = evictable ? kEvictable : 0;
  if (ghosts_.Take(key_hash)) flags |= kInMain;
  slots_[slot].flags = flags;
  if (evictable) Link(slot, /*hot=*/true);
}

void S3FifoPolicy::OnAccess(SlotIndex slot) {
  uint8_t& flags = slots_[slot].flags;
  if ((flags & kUsesMask) < kUsesMask) ++flags;
}

void S3FifoPolicy::SetEvictable(SlotIndex slot, bool evictable) {
  uint8_t& flags = slots_[slot].flags;
  if (evictable == ((flags & kEvictable) != 0)) return;
  if (evictable) {
    flags |= kEvictable;
    Link(slot, /*hot=*/false);
  } else {
    Unlink(slot);
    flags &= static_cast<uint8_t>(~kEvictable);
  }
}

void S3FifoPolicy::OnErase(SlotIndex slot, uint64_t key_hash, EraseCause cause) {
  const uint8_t flags = slots_[slot].flags;
  if (flags & kEvictable) Unlink(slot);
  --live_count_;
  ghosts_.Resize(live_count_);
  if (cause == EraseCause::kEvicted && !(flags & kInMain)) ghosts_.Add(key_hash, {});
}

std::optional<SlotIndex> S3FifoPolicy::PickVictim() {
  // Amortised O(1): each round evicts, moves a slot to the main queue, or uses up one of its uses.
  while (small_count_ + main_count_ > 0) {
    const bool from_small =
        main_count_ == 0 || small_count_ * kSmallShare > small_count_ + main_count_;
    const SlotIndex slot = from_small ? small_.cold() : main_.cold();
    uint8_t& flags = slots_[slot].flags;
    const uint8_t uses = flags & kUsesMask;
    if (uses <= (from_small ? 1 : 0)) return slot;
    Unlink(slot);
    if (from_small) {
      flags = static_cast<uint8_t>((flags & ~kUsesMask) | kInMain);
    } else {
      --flags;
    }
    Link(slot, /*hot=*/true);
  }
  return std::nullopt;
}

}  // namespace moonpool::master
