// Copies in flight: each makes one more replica of a live object, part by part, from node to node.
//
// An object has at most one copy at a time. Its parts go into extents that are allocated and
// charged as granted, each under a claim: a generation of its own, newer than all that was granted
// before for these bytes. A claim also names the command: debts count theirs from 1, and no term is
// 0.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/object_table.h"

namespace moonpool::master {

struct CopyPart {
  StoredPart to = {};
  NodeIndex from = 0;
  Generation claim = {};
  bool is_sealed = false;
};

struct ReplicaCopy {
  SlotIndex slot = kNoSlot;
  Generation generation = {};
  absl::Time deadline = {};
  absl::InlinedVector<CopyPart, 1> parts = {};

  uint64_t bytes() const;
};

class CopyTable {
 public:
  // No copy of the object is in flight.
  void Start(ReplicaCopy copy);
  // nullptr when there is none.
  const ReplicaCopy* Find(SlotIndex slot) const;
  // The object of which this is a claim, if that is in flight.
  std::optional<SlotIndex> FindClaim(Generation claim) const;
  // True: all parts of the copy are sealed now. The claim is in flight.
  bool MarkSealed(Generation claim);
  ReplicaCopy Take(SlotIndex slot);

  // One whose deadline has come, the earliest first.
  std::optional<SlotIndex> Due(absl::Time now) const;
  // Objects with a copy that has parts going to this node, without repetition.
  std::vector<SlotIndex> To(NodeIndex node) const;
  std::optional<Generation> OldestClaim() const;

  size_t size() const { return copies_.size(); }
  const absl::flat_hash_map<SlotIndex, ReplicaCopy>& copies() const { return copies_; }
  // Counts everything again. For tests.
  bool AddsUp() const;

 private:
  absl::flat_hash_map<SlotIndex, ReplicaCopy> copies_;  // never iterated, but for tests
  absl::flat_hash_map<Generation, SlotIndex> by_claim_;
  absl::btree_set<Generation> claims_;
  absl::btree_set<std::pair<absl::Time, SlotIndex>> by_deadline_;
  absl::btree_set<std::pair<NodeIndex, SlotIndex>> by_target_;
};

}  // namespace moonpool::master
