// The open grants: who may write which granted object until when, and which parts of it are sealed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/eviction/slot_table.h"
#include "master/core/node_commands.h"

namespace moonpool::master {

// A part of a granted replica.
struct SealMark {
  uint8_t replica = 0;
  uint16_t part = 0;
  auto operator<=>(const SealMark&) const = default;
};

// Its node has reported it as sealed, the last time in this session.
struct SealReported {
  SealMark mark;
  SessionId session;
};

struct OpenGrant {
  Generation generation;
  uint64_t client_id = 0;
  uint64_t request_id = 0;
  absl::Time deadline;
  uint32_t min_replicas = 1;
  absl::InlinedVector<SealReported, 2> sealed = {};  // sorted by mark
};

class GrantTable {
 public:
  void Open(SlotIndex slot, OpenGrant grant);
  // The slot is granted.
  OpenGrant& At(SlotIndex slot) { return grants_.at(slot); }
  const OpenGrant& At(SlotIndex slot) const { return grants_.at(slot); }
  void MarkSealed(SlotIndex slot, SealMark mark, SessionId session);
  // The last session in which the part was reported; 0: none.
  SessionId SealedIn(SlotIndex slot, SealMark mark) const;
  void Close(SlotIndex slot);
  // It is the grant of another slot from now on.
  void Move(SlotIndex from, SlotIndex to);
  // A granted slot whose deadline has come, the earliest first. The caller closes it.
  std::optional<SlotIndex> Due(absl::Time now) const;
  // Never falls: what is opened later is newer.
  std::optional<Generation> OldestOpen() const;

  size_t size() const { return grants_.size(); }

 private:
  absl::flat_hash_map<SlotIndex, OpenGrant> grants_;  // never iterated
  absl::btree_set<std::pair<absl::Time, SlotIndex>> by_deadline_;
  absl::btree_set<Generation> generations_;
};

}  // namespace moonpool::master
