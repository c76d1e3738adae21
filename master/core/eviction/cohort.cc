#include "master/core/eviction/cohort.h"

#include <algorithm>

namespace moonpool::master {
namespace {

// SlotState::flags.
constexpr uint8_t kReturnsMask = 3;  // how often the chain came back: 0, 1, 2 or more
constexpr uint8_t kReturnsMax = 2;
constexpr uint8_t kSettled = 1 << 2;  // had a child or came back: no longer fresh
constexpr uint8_t kHadChild = 1 << 3;
constexpr uint8_t kHead = 1 << 4;  // the first block of its own chain
constexpr uint8_t kSampled = 1 << 5;
constexpr uint8_t kEvictable = 1 << 6;

constexpr uint8_t kFreshCohort = 0;

// The model learns from one key in four: the ghosts, which are bounded, then remember four times
// longer, and reach beyond the think time even in a small cache.
constexpr uint32_t kSampling = 4;
bool IsSampled(uint64_t key_hash) { return (key_hash >> 32) % kSampling == 0; }

uint8_t CohortOf(uint8_t flags) {
  return (flags & kSettled) ? static_cast<uint8_t>(1 + (flags & kReturnsMask)) : kFreshCohort;
}

uint8_t WithReturns(uint8_t flags, uint8_t returns) {
  return static_cast<uint8_t>((flags & ~kReturnsMask) | std::min(returns, kReturnsMax));
}

}  // namespace

void CohortPolicy::Tick() {
  if (!clock_.OnInsert(live_count_)) return;
  for (AgeWheel& wheel : wheels_) wheel.Advance(slots_, clock_.now());
  model_.OnEpoch(static_cast<double>(live_count_) / kSampling);
}

void CohortPolicy::Link(SlotIndex slot, bool hot) {
  const SlotState& state = slots_[slot];
  AgeWheel& wheel = wheels_[CohortOf(state.flags)];
  const uint16_t age = clock_.AgeOf(state.epoch);
  hot ? wheel.LinkHot(slots_, slot, age) : wheel.LinkCold(slots_, slot, age);
}

void CohortPolicy::Unlink(SlotIndex slot) {
  wheels_[CohortOf(slots_[slot].flags)].Unlink(slots_, slot);
}

uint8_t CohortPolicy::AdoptChild(SlotIndex parent) {
  SlotState& state = slots_[parent];
  if (!(state.flags & kSettled)) {
    // Usually held already, because of the child that is being put.
    const bool linked = state.flags & kEvictable;
    if (linked) Unlink(parent);
    state.flags |= kSettled;
    if (linked) Link(parent, /*hot=*/true);
    if (state.flags & kSampled) model_.OnLifeMoves(kFreshCohort, CohortOf(state.flags));
  }
  const bool first = !(state.flags & kHadChild);
  state.flags |= kHadChild;
  return first ? state.flags & kReturnsMask : kHead;
}

void CohortPolicy::OnInsert(SlotIndex slot, uint64_t key_hash, SlotIndex parent, bool evictable) {
  slots_.Ensure(slot);
  ++live_count_;
  Tick();
  ghosts_.Resize(live_count_);
  SlotState& state = slots_[slot];
  state.epoch = clock_.now();
  state.flags = parent == kNoSlot ? kHead : AdoptChild(parent);
  if (IsSampled(key_hash)) state.flags |= kSampled;
  if (evictable) state.flags |= kEvictable;
  if (std::optional<Ghost> ghost = ghosts_.Take(key_hash)) {
    const uint32_t age = (state.epoch - ghost->epoch) % GhostTable::kEpochs;
    if (state.flags & kSampled) model_.OnUse(ghost->cohort, age);
    const uint8_t before = ghost->cohort == kFreshCohort ? 0 : ghost->cohort - 1;
    const uint8_t returns = std::max<uint8_t>(state.flags & kReturnsMask, before + 1);
    state.flags = WithReturns(state.flags, returns);
    // A last block that is put once more is still a last block. A key without a chain is not.
    if (parent == kNoSlot || ghost->cohort != kFreshCohort) state.flags |= kSettled;
  }
  if (state.flags & kSampled) model_.OnLifeBegins(CohortOf(state.flags));
  if (evictable) Link(slot, /*hot=*/true);
}

void CohortPolicy::OnAccess(SlotIndex slot) {
  SlotState& state = slots_[slot];
  if (state.flags & kEvictable) Unlink(slot);
  if (state.flags & kSampled) model_.OnUse(CohortOf(state.flags), clock_.AgeOf(state.epoch));
  const uint8_t returns = static_cast<uint8_t>((state.flags & kReturnsMask) + 1);
  state.flags = WithReturns(state.flags, returns) | kSettled;
  state.epoch = clock_.now();
  if (state.flags & kSampled) model_.OnLifeBegins(CohortOf(state.flags));
  if (state.flags & kEvictable) Link(slot, /*hot=*/true);
}

void CohortPolicy::SetEvictable(SlotIndex slot, bool evictable) {
  SlotState& state = slots_[slot];
  if (evictable == ((state.flags & kEvictable) != 0)) return;
  if (evictable) {
    state.flags |= kEvictable;
    Link(slot, /*hot=*/false);
  } else {
    Unlink(slot);
    state.flags &= static_cast<uint8_t>(~kEvictable);
  }
}

void CohortPolicy::OnErase(SlotIndex slot, uint64_t key_hash, EraseCause cause) {
  const SlotState& state = slots_[slot];
  if (state.flags & kEvictable) Unlink(slot);
  --live_count_;
  ghosts_.Resize(live_count_);
  // Heads are enough to know a chain that returns: what follows a head takes over from it.
  if (cause == EraseCause::kEvicted && (state.flags & (kHead | kSampled))) {
    ghosts_.Add(key_hash, {.epoch = state.epoch, .cohort = CohortOf(state.flags)});
  }
}

std::optional<SlotIndex> CohortPolicy::PickVictim() {
  constexpr float kLimitFloor = 0.01f;  // a limit of 0 still leaves an order by age
  SlotIndex victim = kNoSlot;
  float victim_idleness = -1;
  for (uint8_t cohort = 0; cohort < IdleModel::kCohorts; ++cohort) {
    const SlotIndex oldest = wheels_[cohort].Oldest(clock_.now());
    if (oldest == kNoSlot) continue;
    const float age = 0.5f + static_cast<float>(clock_.AgeOf(slots_[oldest].epoch));
    const float idleness = age / std::max(kLimitFloor, model_.IdleLimit(cohort));
    if (idleness <= victim_idleness) continue;
    victim_idleness = idleness;
    victim = oldest;
  }
  if (victim == kNoSlot) return std::nullopt;
  return victim;
}

}  // namespace moonpool::master
