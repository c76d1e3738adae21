#include "storage_node/pool/owner_map.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/check.h"

namespace moonpool::storage_node {

void Owner::SetText(absl::string_view key, absl::string_view parent) {
  text = std::make_unique<char[]>(key.size() + parent.size());
  std::memcpy(text.get(), key.data(), key.size());
  if (!parent.empty()) std::memcpy(text.get() + key.size(), parent.data(), parent.size());
  key_bytes = static_cast<uint16_t>(key.size());
  parent_bytes = static_cast<uint16_t>(parent.size());
}

Owner* OwnerMap::Find(uint64_t offset) {
  const auto it = by_offset_.find(offset);
  return it == by_offset_.end() ? nullptr : &slots_[it->second];
}

Owner* OwnerMap::FindSealed(Generation generation, const Extent& extent) {
  Owner* const owner = Find(extent.offset);
  const bool is_it = owner != nullptr && owner->state == OwnerState::kSealed &&
                     owner->generation == generation && owner->length == extent.length;
  return is_it ? owner : nullptr;
}

const Owner* OwnerMap::FindFrom(uint64_t offset) const {
  const auto it = by_offset_.lower_bound(offset);
  return it == by_offset_.end() ? nullptr : &slots_[it->second];
}

Owners OwnerMap::Overlapping(uint64_t offset, uint64_t end) {
  Owners owners;
  auto it = by_offset_.lower_bound(offset);
  if (it != by_offset_.begin()) {
    Owner& before = slots_[std::prev(it)->second];
    if (before.end() > offset) owners.push_back(&before);
  }
  for (; it != by_offset_.end() && it->first < end; ++it) owners.push_back(&slots_[it->second]);
  return owners;
}

Owners OwnerMap::OfGeneration(Generation generation) {
  Owners owners;
  if (const auto it = by_generation_.find(generation); it != by_generation_.end()) {
    for (uint32_t slot = it->second; slot != kNone; slot = slots_[slot].next_) {
      owners.push_back(&slots_[slot]);
    }
  }
  if (const auto it = copies_.find(generation); it != copies_.end()) {
    for (const uint32_t slot : it->second) owners.push_back(&slots_[slot]);
  }
  return owners;
}

Owner& OwnerMap::Insert(Generation generation, uint64_t offset, uint64_t length) {
  uint32_t slot = static_cast<uint32_t>(slots_.size());
  if (unused_.empty()) {
    slots_.emplace_back();
  } else {
    slot = unused_.back();
    unused_.pop_back();
  }
  Owner& owner = slots_[slot];
  owner.generation = generation;
  owner.offset = offset;
  owner.length = length;
  owner.slot_ = slot;
  const bool is_new = by_offset_.emplace(offset, slot).second;
  MP_CHECK(is_new, "two owners at one place", offset);
  Link(owner);
  return owner;
}

void OwnerMap::Erase(Owner& owner) {
  if (owner.state != OwnerState::kForgotten) Unlink(owner);
  by_offset_.erase(owner.offset);
  unused_.push_back(owner.slot_);
  owner = Owner();
}

void OwnerMap::TurnIntoCopy(Owner& owner, Generation of) {
  MP_CHECK(owner.claimed_by == Generation{}, "a copy of a copy", of.value);
  Unlink(owner);
  owner.claimed_by = std::exchange(owner.generation, of);
  Link(owner);
}

void OwnerMap::Forget(Owner& owner) {
  Unlink(owner);
  owner.state = OwnerState::kForgotten;
  owner.text.reset();
}

void OwnerMap::Link(Owner& owner) {
  const auto [it, is_new] = by_generation_.try_emplace(owner.generation, owner.slot_);
  owner.previous_ = kNone;
  owner.next_ = is_new ? kNone : it->second;
  if (!is_new) slots_[it->second].previous_ = owner.slot_;
  it->second = owner.slot_;
  if (owner.claimed_by != Generation{}) copies_[owner.claimed_by].push_back(owner.slot_);
}

void OwnerMap::Unlink(Owner& owner) {
  if (owner.next_ != kNone) slots_[owner.next_].previous_ = owner.previous_;
  if (owner.previous_ != kNone) {
    slots_[owner.previous_].next_ = owner.next_;
  } else if (owner.next_ != kNone) {
    by_generation_[owner.generation] = owner.next_;
  } else {
    by_generation_.erase(owner.generation);
  }
  if (owner.claimed_by == Generation{}) return;
  const auto copies = copies_.find(owner.claimed_by);
  auto& slots = copies->second;
  slots.erase(std::find(slots.begin(), slots.end(), owner.slot_));
  if (slots.empty()) copies_.erase(copies);
}

}  // namespace moonpool::storage_node
