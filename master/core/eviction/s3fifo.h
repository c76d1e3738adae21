// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
// SOSP'23): a small queue on probation (10 %), a main queue with second chances, ghosts that take a
// returning key straight into the main queue. Cheap on hits and scan-resistant, kept for
// comparison: a released object goes to the cold end of its queue.
#pragma once

#include <cstdint>
#include <optional>

#include "master/core/eviction/ghost_table.h"
#include "master/core/eviction/policy.h"
#include "master/core/eviction/slot_list.h"

namespace moonpool::master {

class S3FifoPolicy : public EvictionPolicy {
 public:
  explicit S3FifoPolicy(SlotTable& slots) : slots_(slots) {}

  absl::string_view name() const override { return "s3fifo"; }
  void OnInsert(SlotIndex slot, uint64_t key_hash, SlotIndex parent, bool evictable) override;
  void Prefetch(uint64_t key_hash) const override { ghosts_.Prefetch(key_hash); }
  void OnAccess(SlotIndex slot) override;
  void SetEvictable(SlotIndex slot, bool evictable) override;
  void OnErase(SlotIndex slot, uint64_t key_hash, EraseCause cause) override;
  std::optional<SlotIndex> PickVictim() override;

 private:
  void Link(SlotIndex slot, bool hot);
  void Unlink(SlotIndex slot);

  SlotTable& slots_;
  SlotList small_;
  SlotList main_;
  uint64_t small_count_ = 0;  // linked ones: held objects are in neither queue
  uint64_t main_count_ = 0;
  uint64_t live_count_ = 0;
  GhostTable ghosts_;
};

}  // namespace moonpool::master
