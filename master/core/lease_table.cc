#include "master/core/lease_table.h"

namespace moonpool::master {

bool LeaseTable::Extend(SlotIndex slot, NamespaceId name_space, uint64_t bytes, absl::Time until,
                        uint64_t capacity_bytes) {
  const auto known = leases_.find(slot);
  if (known != leases_.end()) {
    Lease& lease = known->second;
    if (until > lease.until) {
      by_time_.erase({lease.until, slot});
      lease.until = until;
      by_time_.emplace(until, slot);
    }
    return true;
  }
  NamespaceRecord& record = namespaces_[name_space];
  const auto limit = static_cast<uint64_t>(max_fraction_ * static_cast<double>(capacity_bytes));
  if (record.leases >= max_count_ || record.leased_bytes + bytes > limit) return false;
  leases_.emplace(slot, Lease{.until = until, .bytes = bytes, .name_space = name_space});
  by_time_.emplace(until, slot);
  ++record.leases;
  record.leased_bytes += bytes;
  bytes_ += bytes;
  return true;
}

const Lease* LeaseTable::Find(SlotIndex slot) const {
  const auto known = leases_.find(slot);
  return known == leases_.end() ? nullptr : &known->second;
}

void LeaseTable::End(SlotIndex slot) {
  const auto known = leases_.find(slot);
  if (known == leases_.end()) return;
  const Lease& lease = known->second;
  NamespaceRecord& record = namespaces_[lease.name_space];
  --record.leases;
  record.leased_bytes -= lease.bytes;
  bytes_ -= lease.bytes;
  by_time_.erase({lease.until, slot});
  leases_.erase(known);
}

std::optional<SlotIndex> LeaseTable::Due(absl::Time now) const {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  return by_time_.begin()->second;
}

}  // namespace moonpool::master
