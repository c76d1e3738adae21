// Objects that are read so often that they have more replicas than their writer asked for, or were
// to have them, and when each is looked at again. An object stands here once.
#pragma once

#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "master/core/eviction/slot_table.h"

namespace moonpool::master {

class HotTable {
 public:
  // It is there now, if it was not, and due at that time only.
  void Put(SlotIndex slot, absl::Time due) {
    Remove(slot);
    due_.emplace(slot, due);
    by_time_.emplace(due, slot);
  }
  // Nothing when it is not there.
  void Remove(SlotIndex slot) {
    const auto known = due_.find(slot);
    if (known == due_.end()) return;
    by_time_.erase({known->second, slot});
    due_.erase(known);
  }
  bool contains(SlotIndex slot) const { return due_.contains(slot); }
  std::optional<SlotIndex> Due(absl::Time now) const {
    if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
    return by_time_.begin()->second;
  }
  // The one that follows, round and round. The table is not empty.
  SlotIndex After(SlotIndex slot) const {
    const auto next = due_.upper_bound(slot);
    return next == due_.end() ? due_.begin()->first : next->first;
  }
  size_t size() const { return due_.size(); }

 private:
  absl::btree_map<SlotIndex, absl::Time> due_;
  absl::btree_set<std::pair<absl::Time, SlotIndex>> by_time_;
};

}  // namespace moonpool::master
