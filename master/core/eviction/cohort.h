// Cohort: the default policy. An object is evicted when it has been idle for longest relative to
// what objects of its kind are worth, and what they are worth is learned.
//
// Why: in chat traffic four of five blocks are never used again, and those that are come back after
// a think time that is longer than a small cache's turnover, so LRU throws them out just before.
// What tells them apart is history. Four cohorts:
//
//   fresh    inserted, no child yet: in a chain the partial last block, almost never used again
//   new      part of a chain that has not come back
//   once     came back once (a hit, or the key's ghost was there when it was put again)
//   regular  came back more often: a conversation that is going on, a system prompt
//
// A block that is put as the first child of another one takes over how often its parent's chain
// came back: the same prompt goes on. Later children do not, since they are other prompts.
// IdleModel gives each cohort an idle limit; PickVictim compares the coldest object of each cohort.
// A scan only fills its own cohort, whose limit falls to nothing; traffic with plain recency makes
// the limits equal, which is LRU.
//
// Related: segmented queues and ghosts of 2Q (Johnson, Shasha, VLDB'94) and S3-FIFO (Yang et al.,
// SOSP'23); learned ages of LHD (Beckmann et al., NSDI'18). Figures: bench/trace/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "master/core/eviction/age_wheel.h"
#include "master/core/eviction/ghost_table.h"
#include "master/core/eviction/idle_model.h"
#include "master/core/eviction/policy.h"

namespace moonpool::master {

class CohortPolicy : public EvictionPolicy {
 public:
  explicit CohortPolicy(SlotTable& slots) : slots_(slots) {}

  absl::string_view name() const override { return "cohort"; }
  void OnInsert(SlotIndex slot, uint64_t key_hash, SlotIndex parent, bool evictable) override;
  void Prefetch(uint64_t key_hash) const override { ghosts_.Prefetch(key_hash); }
  void OnAccess(SlotIndex slot) override;
  void SetEvictable(SlotIndex slot, bool evictable) override;
  void OnErase(SlotIndex slot, uint64_t key_hash, EraseCause cause) override;
  std::optional<SlotIndex> PickVictim() override;

 private:
  void Tick();
  // Marks that a child was put; returns what the child takes over (see above).
  uint8_t AdoptChild(SlotIndex parent);
  void Link(SlotIndex slot, bool hot);
  void Unlink(SlotIndex slot);

  SlotTable& slots_;
  EpochClock clock_;
  std::array<AgeWheel, IdleModel::kCohorts> wheels_;
  IdleModel model_;
  GhostTable ghosts_;
  uint64_t live_count_ = 0;
};

}  // namespace moonpool::master
