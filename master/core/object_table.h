// Every object that the master knows, in 64 bytes each beside its key and one index entry.
//
// A slot is found by namespace and key, or by its number when a generation proves that it is still
// the same object. States: granted -> live -> free. A fourth one, absent, stands for a key that is
// not stored while objects are that name it as their parent: children need no list then, only a
// count, and a parent that arrives after its children finds them counted.
//
// Objects with one replica of one part hold it in the slot; others in a side table.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "master/core/chunked_vector.h"
#include "master/core/eviction/slot_table.h"
#include "master/core/hash_index.h"
#include "master/core/key_store.h"

namespace moonpool::master {

using NamespaceId = uint16_t;
using NodeIndex = uint16_t;  // of the node table; 0 = none

// The same for all lives of a key, in every process.
uint64_t KeyHash(NamespaceId name_space, absl::string_view key);

enum class ObjectState : uint8_t { kFree, kAbsent, kGranted, kLive };

struct ObjectSlot {
  Generation generation;
  uint64_t size_bytes = 0;
  uint64_t offset = 0;  // of the only part, or in the side table
  KeyStore::Block key_block = 0;
  SlotIndex parent = kNoSlot;  // the next free slot while free
  uint32_t live_children = 0;
  uint32_t open_children = 0;  // granted
  uint32_t position = 0;       // of the only part in its node's list
  uint32_t stored_at_cs = 0;   // hundredths of a second since the core's first command
  uint16_t key_bytes = 0;
  NamespaceId name_space = 0;
  NodeIndex node = 0;  // of the only part; 0: there is no such
  uint16_t segment = 0;
  ObjectState state = ObjectState::kFree;
  bool is_leased = false;
  bool is_parked = false;   // all its bytes are on nodes that are away: evicting it frees nothing
  bool is_adopted = false;  // from an inventory: an older leader may have leased it
  bool has_list = false;    // its parts are in the side table, at `offset`
  // Nodes beside those of its parts may have records of the key that an inventory could bring back.
  bool is_scattered = false;
  uint8_t more_wished : 3 = 0;  // replicas beside the first that its writer asked for
  uint8_t extra : 3 = 0;        // and beside those: it is read a lot
  bool is_short : 1 = false;    // live, with fewer replicas than its writer asked for
  uint8_t heat = 0;             // see HeatScale

  uint32_t wished() const { return 1u + more_wished; }
};
static_assert(sizeof(ObjectSlot) == 64);

// A part of a replica, as the table keeps it. Replicas of an object are numbered; the numbers of a
// grant are those of its replicas, later they only tell replicas apart.
struct StoredPart {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t position = 0;  // in its node's list
  NodeIndex node = 0;
  uint16_t segment = 0;
  uint8_t replica = 0;
  // The replica number under which its node has recorded it. Of a replica of several parts it tells
  // how the object was cut: equal numbers, equal cuts.
  uint8_t cut = 0;
};
// Replica by replica, in object order within each.
using StoredParts = absl::InlinedVector<StoredPart, 2>;

class ObjectTable {
 public:
  explicit ObjectTable(uint32_t max_slots) : max_slots_(max_slots) {}

  // Any state but free; kNoSlot when unknown.
  SlotIndex Find(NamespaceId name_space, absl::string_view key) const {
    return Find(KeyHash(name_space, key), name_space, key);
  }
  SlotIndex Find(uint64_t hash, NamespaceId name_space, absl::string_view key) const;
  // Brings what Find will look at for these, kPrefetchKeys at most, into the cache (look_ahead.h).
  static constexpr size_t kPrefetchKeys = 32;
  void Prefetch(absl::Span<const uint64_t> hashes) const;
  // A new slot, absent and without parts. The key must be unknown. kNoSlot when the table is full.
  SlotIndex Add(uint64_t hash, NamespaceId name_space, absl::string_view key);
  // Without parts and children.
  void Remove(SlotIndex slot);

  ObjectSlot& operator[](SlotIndex slot) { return slots_[slot]; }
  const ObjectSlot& operator[](SlotIndex slot) const { return slots_[slot]; }
  // nullptr unless the slot holds this generation, granted or live.
  const ObjectSlot* FindGeneration(SlotIndex slot, Generation generation) const;
  absl::string_view KeyOf(SlotIndex slot) const {
    return keys_.Get(slots_[slot].key_block, slots_[slot].key_bytes);
  }
  uint64_t HashOf(SlotIndex slot) const { return KeyHash(slots_[slot].name_space, KeyOf(slot)); }

  StoredParts PartsOf(SlotIndex slot) const;
  void SetParts(SlotIndex slot, StoredParts parts);
  // The part at `from` in its node's list is now at `to`.
  void MovePosition(SlotIndex slot, NodeIndex node, uint32_t from, uint32_t to);
  // Calls f(part) for each part without copying the list.
  template <typename F>
  void ForEachPart(SlotIndex slot, F f) const {
    const ObjectSlot& object = slots_[slot];
    if (object.node != 0) {
      f(OnlyPart(object));
      return;
    }
    if (!object.has_list) return;
    for (const StoredPart& part : lists_[object.offset]) f(part);
  }

  // Slots were numbered from 0 up to here.
  SlotIndex slot_count() const { return static_cast<SlotIndex>(slots_.size()); }
  uint32_t used_slots() const { return used_; }
  size_t index_size() const { return index_.size(); }

 private:
  static StoredPart OnlyPart(const ObjectSlot& object) {
    return StoredPart{.offset = object.offset,
                      .length = object.size_bytes + kPartHeaderBytes,
                      .position = object.position,
                      .node = object.node,
                      .segment = object.segment};
  }

  void DropList(ObjectSlot& object);

  uint32_t max_slots_;
  uint32_t used_ = 0;
  SlotIndex first_free_ = kNoSlot;
  ChunkedVector<ObjectSlot> slots_;
  KeyStore keys_;
  HashIndex index_;
  ChunkedVector<StoredParts, 512> lists_;
  std::vector<uint32_t> free_lists_;  // unused ones
};

}  // namespace moonpool::master
