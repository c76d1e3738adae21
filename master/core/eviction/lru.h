// LRU: the least recently used evictable object goes. The baseline that every other policy has to
// beat. A released object takes the place of its last use, to the resolution of the wheel's epochs.
#pragma once

#include <cstdint>
#include <optional>

#include "master/core/eviction/age_wheel.h"
#include "master/core/eviction/policy.h"

namespace moonpool::master {

class LruPolicy : public EvictionPolicy {
 public:
  explicit LruPolicy(SlotTable& slots) : slots_(slots) {}

  absl::string_view name() const override { return "lru"; }
  void OnInsert(SlotIndex slot, uint64_t key_hash, SlotIndex parent, bool evictable) override;
  void OnAccess(SlotIndex slot) override;
  void SetEvictable(SlotIndex slot, bool evictable) override;
  void OnErase(SlotIndex slot, uint64_t key_hash, EraseCause cause) override;
  std::optional<SlotIndex> PickVictim() override;

 private:
  static constexpr uint8_t kEvictable = 1;  // SlotState::flags

  SlotTable& slots_;
  EpochClock clock_;
  AgeWheel wheel_;
  uint64_t live_count_ = 0;
};

}  // namespace moonpool::master
