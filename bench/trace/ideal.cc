#include "bench/trace/ideal.h"

#include <limits>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/check.h"
#include "common/random.h"

namespace moonpool::trace {
namespace {

using master::EraseCause;
using master::EvictionPolicy;
using master::kNoSlot;
using master::SlotIndex;

// Whom to evict, and what happened. Slots are dense and reused.
class Evictor {
 public:
  virtual ~Evictor() = default;
  // The request that is being replayed uses the block at `position` of its chain.
  virtual void OnHit(SlotIndex slot, size_t position) = 0;
  virtual void OnPut(SlotIndex slot, uint64_t block, SlotIndex parent, size_t position) = 0;
  virtual void SetEvictable(SlotIndex slot, bool evictable) = 0;
  virtual void OnEvicted(SlotIndex slot, uint64_t block) = 0;
  virtual std::optional<SlotIndex> PickVictim() = 0;
};

class Cache {
 public:
  Cache(uint32_t capacity_blocks, Evictor& evictor) : evictor_(evictor), slots_(capacity_blocks) {
    for (SlotIndex slot = capacity_blocks; slot-- > 0;) free_.push_back(slot);
  }

  void Replay(const Request& request) {
    const std::vector<uint64_t>& blocks = request.blocks;
    count_.references += blocks.size();
    SlotIndex parent = kNoSlot;
    size_t position = 0;
    for (; position < blocks.size(); ++position) {
      const auto it = where_.find(blocks[position]);
      if (it == where_.end()) break;
      evictor_.OnHit(it->second, position);
      parent = it->second;
    }
    count_.hits += position;
    for (; position < blocks.size(); ++position) {
      if (const auto it = where_.find(blocks[position]); it != where_.end()) {
        parent = it->second;
        continue;
      }
      const SlotIndex slot = Put(blocks[position], parent, position);
      if (slot == kNoSlot) {
        count_.refused += blocks.size() - position;
        return;
      }
      parent = slot;
    }
  }

  const HitCount& count() const { return count_; }

 private:
  struct Slot {
    uint64_t block = 0;
    SlotIndex parent = kNoSlot;
    uint32_t children = 0;
  };

  SlotIndex Put(uint64_t block, SlotIndex parent, size_t position) {
    // The parent is held from now on, as an open grant holds it in the master.
    if (parent != kNoSlot) AddChild(parent);
    if (free_.empty() && !EvictOne()) {
      if (parent != kNoSlot) DropChild(parent);
      return kNoSlot;
    }
    const SlotIndex slot = free_.back();
    free_.pop_back();
    slots_[slot] = {.block = block, .parent = parent};
    where_[block] = slot;
    evictor_.OnPut(slot, block, parent, position);
    return slot;
  }

  bool EvictOne() {
    const std::optional<SlotIndex> victim = evictor_.PickVictim();
    if (!victim) return false;
    const Slot slot = slots_[*victim];
    MP_CHECK(slot.children == 0, "a parent was offered before its children", slot.block);
    evictor_.OnEvicted(*victim, slot.block);
    where_.erase(slot.block);
    free_.push_back(*victim);
    if (slot.parent != kNoSlot) DropChild(slot.parent);
    return true;
  }

  void AddChild(SlotIndex slot) {
    if (slots_[slot].children++ == 0) evictor_.SetEvictable(slot, false);
  }
  void DropChild(SlotIndex slot) {
    if (--slots_[slot].children == 0) evictor_.SetEvictable(slot, true);
  }

  Evictor& evictor_;
  std::vector<Slot> slots_;
  std::vector<SlotIndex> free_;
  absl::flat_hash_map<uint64_t, SlotIndex> where_;
  HitCount count_;
};

class PolicyEvictor : public Evictor {
 public:
  explicit PolicyEvictor(EvictionPolicy& policy) : policy_(policy) {}
  void OnHit(SlotIndex slot, size_t) override { policy_.OnAccess(slot); }
  void OnPut(SlotIndex slot, uint64_t block, SlotIndex parent, size_t) override {
    policy_.OnInsert(slot, HashOf(block), parent, /*evictable=*/true);
  }
  void SetEvictable(SlotIndex slot, bool evictable) override {
    policy_.SetEvictable(slot, evictable);
  }
  void OnEvicted(SlotIndex slot, uint64_t block) override {
    policy_.OnErase(slot, HashOf(block), EraseCause::kEvicted);
  }
  std::optional<SlotIndex> PickVictim() override { return policy_.PickVictim(); }

 private:
  static uint64_t HashOf(uint64_t block) { return Random(block).Next(); }

  EvictionPolicy& policy_;
};

// Knows when every block is used next.
class Oracle : public Evictor {
 public:
  Oracle(const Trace& trace, uint32_t capacity_blocks)
      : next_uses_(trace.requests.size()), slots_(capacity_blocks) {
    absl::flat_hash_map<uint64_t, uint32_t> next;
    for (size_t i = trace.requests.size(); i-- > 0;) {
      const std::vector<uint64_t>& blocks = trace.requests[i].blocks;
      next_uses_[i].reserve(blocks.size());
      for (const uint64_t block : blocks) {
        const auto [it, is_last] = next.try_emplace(block, kNever);
        next_uses_[i].push_back(it->second);
      }
      for (const uint64_t block : blocks) next[block] = static_cast<uint32_t>(i);
    }
  }

  void StartRequest(size_t index) { request_ = index; }

  void OnHit(SlotIndex slot, size_t position) override {
    slots_[slot].next_use = next_uses_[request_][position];
    Offer(slot);
  }
  void OnPut(SlotIndex slot, uint64_t, SlotIndex, size_t position) override {
    slots_[slot] = {.next_use = next_uses_[request_][position], .is_evictable = true};
    Offer(slot);
  }
  void SetEvictable(SlotIndex slot, bool evictable) override {
    slots_[slot].is_evictable = evictable;
    Offer(slot);
  }
  void OnEvicted(SlotIndex slot, uint64_t) override { slots_[slot] = {}; }

  std::optional<SlotIndex> PickVictim() override {
    while (!offers_.empty()) {
      const auto [next_use, slot] = offers_.top();
      if (slots_[slot].is_evictable && slots_[slot].next_use == next_use) return slot;
      offers_.pop();  // out of date
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  struct Slot {
    uint32_t next_use = 0;
    bool is_evictable = false;
  };

  void Offer(SlotIndex slot) {
    if (slots_[slot].is_evictable) offers_.emplace(slots_[slot].next_use, slot);
  }

  std::vector<std::vector<uint32_t>> next_uses_;  // by request and position: a request's index
  std::vector<Slot> slots_;
  std::priority_queue<std::pair<uint32_t, SlotIndex>> offers_;
  size_t request_ = 0;
};

}  // namespace

HitCount UnboundedHits(const Trace& trace) {
  HitCount count;
  absl::flat_hash_set<uint64_t> seen;
  for (const Request& request : trace.requests) {
    count.references += request.blocks.size();
    size_t matched = 0;
    while (matched < request.blocks.size() && seen.contains(request.blocks[matched])) ++matched;
    count.hits += matched;
    seen.insert(request.blocks.begin(), request.blocks.end());
  }
  return count;
}

HitCount OfflineOptimalHits(const Trace& trace, uint32_t capacity_blocks) {
  Oracle oracle(trace, capacity_blocks);
  Cache cache(capacity_blocks, oracle);
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    oracle.StartRequest(i);
    cache.Replay(trace.requests[i]);
  }
  return cache.count();
}

HitCount SimulatePolicy(const Trace& trace, uint32_t capacity_blocks, EvictionPolicy& policy) {
  PolicyEvictor evictor(policy);
  Cache cache(capacity_blocks, evictor);
  for (const Request& request : trace.requests) cache.Replay(request);
  return cache.count();
}

}  // namespace moonpool::trace
