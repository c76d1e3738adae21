// The leases: until when locations were promised to stay as they are. One per object, the longest
// that was given; what namespaces hold is counted in their records.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "master/core/eviction/slot_table.h"
#include "master/core/namespace_table.h"

namespace moonpool::master {

struct Lease {
  absl::Time until;
  uint64_t bytes = 0;  // of the pool, as counted for its namespace
  NamespaceId name_space = 0;
};

class LeaseTable {
 public:
  LeaseTable(NamespaceTable& namespaces, uint32_t max_per_namespace, double max_fraction)
      : namespaces_(namespaces), max_count_(max_per_namespace), max_fraction_(max_fraction) {}

  // The lease now lasts until `until` at least. False, and nothing has changed, when that would be
  // a new one and the namespace holds all that it may.
  bool Extend(SlotIndex slot, NamespaceId name_space, uint64_t bytes, absl::Time until,
              uint64_t capacity_bytes);
  // The object's lease, if there is one.
  const Lease* Find(SlotIndex slot) const;
  void End(SlotIndex slot);
  // A leased object whose time has come, the earliest first. The caller ends it.
  std::optional<SlotIndex> Due(absl::Time now) const;

  size_t size() const { return leases_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  NamespaceTable& namespaces_;
  uint32_t max_count_;
  double max_fraction_;
  uint64_t bytes_ = 0;
  absl::flat_hash_map<SlotIndex, Lease> leases_;  // never iterated
  absl::btree_set<std::pair<absl::Time, SlotIndex>> by_time_;
};

}  // namespace moonpool::master
