#include "master/core/copy_table.h"

#include <algorithm>

#include "common/check.h"

namespace moonpool::master {

uint64_t ReplicaCopy::bytes() const {
  uint64_t sum = 0;
  for (const CopyPart& part : parts) sum += part.to.length;
  return sum;
}

void CopyTable::Start(ReplicaCopy copy) {
  const SlotIndex slot = copy.slot;
  by_deadline_.emplace(copy.deadline, slot);
  for (const CopyPart& part : copy.parts) {
    claims_.insert(part.claim);
    by_claim_.emplace(part.claim, slot);
    by_target_.emplace(part.to.node, slot);
  }
  MP_CHECK(copies_.emplace(slot, std::move(copy)).second, "a second copy of slot", slot);
}

const ReplicaCopy* CopyTable::Find(SlotIndex slot) const {
  const auto copy = copies_.find(slot);
  return copy == copies_.end() ? nullptr : &copy->second;
}

std::optional<SlotIndex> CopyTable::FindClaim(Generation claim) const {
  const auto known = by_claim_.find(claim);
  if (known == by_claim_.end()) return std::nullopt;
  return known->second;
}

bool CopyTable::MarkSealed(Generation claim) {
  ReplicaCopy& copy = copies_.at(by_claim_.at(claim));
  bool is_whole = true;
  for (CopyPart& part : copy.parts) {
    if (part.claim == claim) part.is_sealed = true;
    is_whole = is_whole && part.is_sealed;
  }
  return is_whole;
}

ReplicaCopy CopyTable::Take(SlotIndex slot) {
  const auto found = copies_.find(slot);
  ReplicaCopy copy = std::move(found->second);
  copies_.erase(found);
  by_deadline_.erase({copy.deadline, slot});
  for (const CopyPart& part : copy.parts) {
    claims_.erase(part.claim);
    by_claim_.erase(part.claim);
    by_target_.erase({part.to.node, slot});
  }
  return copy;
}

std::optional<SlotIndex> CopyTable::Due(absl::Time now) const {
  if (by_deadline_.empty() || by_deadline_.begin()->first > now) return std::nullopt;
  return by_deadline_.begin()->second;
}

std::vector<SlotIndex> CopyTable::To(NodeIndex node) const {
  std::vector<SlotIndex> slots;
  for (auto entry = by_target_.lower_bound({node, 0});
       entry != by_target_.end() && entry->first == node; ++entry) {
    slots.push_back(entry->second);
  }
  return slots;
}

std::optional<Generation> CopyTable::OldestClaim() const {
  if (claims_.empty()) return std::nullopt;
  return *claims_.begin();
}

bool CopyTable::AddsUp() const {
  size_t claims = 0;
  for (const auto& [slot, copy] : copies_) {
    if (copy.slot != slot || copy.parts.empty()) return false;
    if (!by_deadline_.contains({copy.deadline, slot})) return false;
    for (const CopyPart& part : copy.parts) {
      ++claims;
      if (FindClaim(part.claim) != slot || !claims_.contains(part.claim)) return false;
      if (!by_target_.contains({part.to.node, slot})) return false;
    }
    const bool is_whole = std::all_of(copy.parts.begin(), copy.parts.end(),
                                      [](const CopyPart& part) { return part.is_sealed; });
    if (is_whole) return false;  // it should have become a replica
  }
  return claims == claims_.size() && claims == by_claim_.size() &&
         copies_.size() == by_deadline_.size();
}

}  // namespace moonpool::master
