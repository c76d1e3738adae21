#include "master/core/object_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/check.h"
#include "common/checksum.h"

namespace moonpool::master {

uint64_t KeyHash(NamespaceId name_space, absl::string_view key) {
  // The key's hash is uniform already; an odd multiple keeps namespaces apart in all of its bits.
  return Checksum(key) ^ (uint64_t{name_space} * 0x9e3779b97f4a7c15u);
}

SlotIndex ObjectTable::Find(uint64_t hash, NamespaceId name_space, absl::string_view key) const {
  return index_.Find(hash, [&](SlotIndex slot) {
    return slots_[slot].name_space == name_space && KeyOf(slot) == key;
  });
}

void ObjectTable::Prefetch(absl::Span<const uint64_t> hashes) const {
  std::array<SlotIndex, kPrefetchKeys> slots;
  const size_t count = std::min(hashes.size(), kPrefetchKeys);
  for (size_t i = 0; i < count; ++i) index_.Prefetch(hashes[i]);
  for (size_t i = 0; i < count; ++i) {
    slots[i] = index_.Find(hashes[i], [](SlotIndex) { return true; });
    if (slots[i] != kNoSlot) __builtin_prefetch(&slots_[slots[i]]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (slots[i] != kNoSlot) keys_.Prefetch(slots_[slots[i]].key_block);
  }
}

SlotIndex ObjectTable::Add(uint64_t hash, NamespaceId name_space, absl::string_view key) {
  if (used_ >= max_slots_) return kNoSlot;
  SlotIndex slot = first_free_;
  if (slot != kNoSlot) {
    first_free_ = slots_[slot].parent;
    slots_[slot] = ObjectSlot{};
  } else {
    slot = slot_count();
    slots_.push_back(ObjectSlot{});
  }
  ObjectSlot& object = slots_[slot];
  object.key_block = keys_.Add(key);
  object.key_bytes = static_cast<uint16_t>(key.size());
  object.name_space = name_space;
  object.state = ObjectState::kAbsent;
  index_.Insert(hash, slot);
  ++used_;
  return slot;
}

void ObjectTable::Remove(SlotIndex slot) {
  ObjectSlot& object = slots_[slot];
  MP_CHECK(object.live_children == 0 && object.open_children == 0 && object.node == 0 &&
               !object.has_list,
           "slot in use", slot);
  MP_CHECK(index_.Erase(HashOf(slot), slot), "slot not in the index", slot);
  keys_.Remove(object.key_block, object.key_bytes);
  object = ObjectSlot{};
  object.parent = first_free_;
  first_free_ = slot;
  --used_;
}

const ObjectSlot* ObjectTable::FindGeneration(SlotIndex slot, Generation generation) const {
  if (slot >= slot_count()) return nullptr;
  const ObjectSlot& object = slots_[slot];
  const bool is_there = object.state == ObjectState::kGranted || object.state == ObjectState::kLive;
  return is_there && object.generation == generation ? &object : nullptr;
}

StoredParts ObjectTable::PartsOf(SlotIndex slot) const {
  StoredParts parts;
  ForEachPart(slot, [&](const StoredPart& part) { parts.push_back(part); });
  return parts;
}

void ObjectTable::SetParts(SlotIndex slot, StoredParts parts) {
  ObjectSlot& object = slots_[slot];
  DropList(object);
  object.node = 0;
  if (parts.empty()) return;
  if (parts.size() == 1 && parts[0].replica == 0) {
    const StoredPart& part = parts[0];
    MP_CHECK(part.length == object.size_bytes + kPartHeaderBytes, "length of an only part",
             part.length, object.size_bytes);
    object.node = part.node;
    object.segment = part.segment;
    object.offset = part.offset;
    object.position = part.position;
    return;
  }
  object.has_list = true;
  if (free_lists_.empty()) {
    object.offset = lists_.size();
    lists_.push_back(std::move(parts));
  } else {
    object.offset = free_lists_.back();
    free_lists_.pop_back();
    lists_[object.offset] = std::move(parts);
  }
}

void ObjectTable::DropList(ObjectSlot& object) {
  if (!std::exchange(object.has_list, false)) return;
  lists_[object.offset].clear();
  lists_[object.offset].shrink_to_fit();
  free_lists_.push_back(static_cast<uint32_t>(object.offset));
}

void ObjectTable::MovePosition(SlotIndex slot, NodeIndex node, uint32_t from, uint32_t to) {
  ObjectSlot& object = slots_[slot];
  if (object.node != 0) {
    MP_CHECK(object.node == node && object.position == from, "position", slot, from);
    object.position = to;
    return;
  }
  MP_CHECK(object.has_list, "a part of no object", slot, from);
  for (StoredPart& part : lists_[object.offset]) {
    if (part.node == node && part.position == from) {
      part.position = to;
      return;
    }
  }
  MP_CHECK(false, "part not at its position", slot, from);
}

}  // namespace moonpool::master
