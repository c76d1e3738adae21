// Which generation owns which bytes of one segment. A plain data structure: the rules are in
// segment_index.h.
//
// Owners never overlap. Lookup by place is O(log n), by generation O(1); an owner costs about 100
// bytes, and its key and parent once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "common/types.h"
#include "storage_node/pool/namespace_table.h"
#include "storage_node/pool/seal_journal.h"

namespace moonpool::storage_node {

class SegmentClaim;

enum class OwnerState : uint8_t {
  kWriting,    // claimed; the claim may be gone already
  kSealed,     // described by the seal fields
  kForgotten,  // no record any more, only bytes nobody may have yet: they are pinned
};

struct Owner {
  Generation generation;  // whose part it is, or will be
  // Of a copy: its bytes were claimed under this, and hold the part of the older generation above.
  Generation claimed_by;
  uint64_t offset = 0;
  uint64_t length = 0;
  SegmentClaim* claim = nullptr;  // the live claim, if any
  OwnerState state = OwnerState::kWriting;
  JournalEntry entry;  // of a sealed part, or of bytes that are in use without one

  // Seal fields.
  uint8_t replica_index = 0;
  uint8_t replicas = 0;
  uint16_t part_index = 0;
  uint16_t part_count = 0;
  uint16_t key_bytes = 0;
  uint16_t parent_bytes = 0;
  NamespaceTable::Id name_space = 0;
  uint64_t object_bytes = 0;
  uint64_t payload_checksum = 0;
  std::unique_ptr<char[]> text;  // key, then parent

  uint64_t end() const { return offset + length; }
  // Its place among the owners of these bytes, past and to come: the newest owns.
  Generation order() const { return claimed_by == Generation{} ? generation : claimed_by; }
  absl::string_view key() const { return {text.get(), key_bytes}; }
  absl::string_view parent() const { return {text.get() + key_bytes, parent_bytes}; }
  void SetText(absl::string_view key, absl::string_view parent);

 private:
  friend class OwnerMap;
  // Others of the same generation, in no order.
  uint32_t slot_ = 0;
  uint32_t next_ = 0;
  uint32_t previous_ = 0;
};

using Owners = absl::InlinedVector<Owner*, 8>;

// Not thread-safe. Pointers to owners stay valid until they are erased.
class OwnerMap {
 public:
  // The owner that starts exactly there; nullptr: none.
  Owner* Find(uint64_t offset);
  const Owner* Find(uint64_t offset) const { return const_cast<OwnerMap*>(this)->Find(offset); }
  // The sealed part of that generation that has exactly these bytes; nullptr: there is none.
  Owner* FindSealed(Generation generation, const Extent& extent);
  const Owner* FindSealed(Generation generation, const Extent& extent) const {
    return const_cast<OwnerMap*>(this)->FindSealed(generation, extent);
  }
  // The first owner at or after the place; nullptr: none.
  const Owner* FindFrom(uint64_t offset) const;
  // All that own a byte of [offset, end), in order of place.
  Owners Overlapping(uint64_t offset, uint64_t end);
  // Those of a generation, and what was claimed under it for copies; the forgotten ones left out.
  Owners OfGeneration(Generation generation);

  // Takes bytes that nobody owns.
  Owner& Insert(Generation generation, uint64_t offset, uint64_t length);
  void Erase(Owner& owner);
  // What was claimed under its generation is a copy of the part of an older one.
  void TurnIntoCopy(Owner& owner, Generation of);
  // Its generation does not find it any more; its bytes stay taken.
  void Forget(Owner& owner);

  size_t size() const { return by_offset_.size(); }

 private:
  static constexpr uint32_t kNone = 0xffffffff;

  void Link(Owner& owner);
  void Unlink(Owner& owner);

  std::deque<Owner> slots_;
  std::vector<uint32_t> unused_;
  absl::btree_map<uint64_t, uint32_t> by_offset_;
  absl::flat_hash_map<Generation, uint32_t> by_generation_;  // the first of its list
  // Copies by what they were claimed under; one claim may be of several parts.
  absl::flat_hash_map<Generation, absl::InlinedVector<uint32_t, 1>> copies_;
};

}  // namespace moonpool::storage_node
