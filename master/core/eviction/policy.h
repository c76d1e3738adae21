// Which object goes when a tier needs room. One policy instance per (tenant, tier).
//
//   SlotTable slots;                                  // one per tier, shared by its tenants
//   auto policy = *MakeEvictionPolicy("cohort", slots);
//   policy->OnInsert(slot, key_hash, parent_slot, /*evictable=*/true);
//   policy->SetEvictable(parent_slot, false);         // it has a child now
//   ...
//   while (used > capacity) {
//     std::optional<SlotIndex> victim = policy->PickVictim();
//     if (!victim) return NoSpace();                  // everything left is held
//     policy->OnErase(*victim, KeyHashOf(*victim), EraseCause::kEvicted);
//   }
//
// A policy is pure: no clock, no threads, no randomness, so that the same calls give the same
// victims. It counts time in insertions. The caller serialises access. Every call is O(1)
// amortised.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "master/core/eviction/slot_table.h"

namespace moonpool::master {

enum class EraseCause {
  kEvicted,  // to make room: the policy remembers the key for a while (a ghost)
  kRemoved,  // by request, expiry or loss of its node: nothing is to be learned from it
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual absl::string_view name() const = 0;

  // `slot` now holds a live object. key_hash: well mixed, the same over all lives of a key.
  // `parent` is the slot of the previous block of its chain, live in this instance, or kNoSlot.
  // `evictable` is false for an object that is held from the start.
  virtual void OnInsert(SlotIndex slot, uint64_t key_hash, SlotIndex parent, bool evictable) = 0;

  // Brings what OnInsert will look at for this key into the cache: with millions of objects each
  // insertion waits for memory otherwise, and several keys can be asked for side by side.
  virtual void Prefetch(uint64_t /*key_hash*/) const {}

  // The object was of use to somebody: located, matched as a prefix, read.
  virtual void OnAccess(SlotIndex slot) = 0;

  // Held back (live children, an open grant that names it, a lease, a pin) or released. Idempotent.
  // A held object is never offered. A released one takes the place that its last use earns.
  virtual void SetEvictable(SlotIndex slot, bool evictable) = 0;

  // The object is gone and the slot may be used again. key_hash is the one of OnInsert: the caller
  // has it at hand, and four bytes per object are saved by not keeping it here.
  virtual void OnErase(SlotIndex slot, uint64_t key_hash, EraseCause cause) = 0;

  // The next to go, nullopt when nothing is evictable. Changes nothing that is visible: asked twice
  // it answers the same, and the caller erases it with OnErase.
  virtual std::optional<SlotIndex> PickVictim() = 0;
};

}  // namespace moonpool::master
