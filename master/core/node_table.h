// The storage nodes: their segments' free space, what stands on them, and how they are doing.
//
// A record stands for one incarnation of a node. States: up -> away (no session) -> lost (away for
// too long: its replicas are dropped, bit by bit), and back to up when the same incarnation
// returns; retired when another incarnation has taken the name over, until all its replicas are
// dropped.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "master/core/chunked_vector.h"
#include "master/core/extent_allocator.h"
#include "master/core/lost_parts.h"
#include "master/core/node_commands.h"
#include "master/core/object_table.h"
#include "master/core/unproven_parts.h"

namespace moonpool::master {

enum class NodeState : uint8_t { kUp, kAway, kLost, kRetired };

// What allocated bytes are used for.
enum class ByteUse : uint8_t { kLive, kGranted, kCondemned, kPartial };
using BytesByUse = std::array<uint64_t, 4>;

// A host or rack by number; equal names have equal numbers. 0: none was named.
using LabelId = uint32_t;

// What one node has named of its parts: a bit for each object, and of those that have several parts
// the places, since some may be there and others not.
class SeenParts {
 public:
  void Insert(SlotIndex slot) {
    if (slot >= bits_.size()) bits_.resize(slot + slot / 4 + 64);
    bits_[slot] = true;
  }
  void InsertPlace(uint32_t segment, uint64_t offset) { places_.insert({segment, offset}); }
  bool Contains(SlotIndex slot) const { return slot < bits_.size() && bits_[slot]; }
  bool ContainsPlace(uint32_t segment, uint64_t offset) const {
    return places_.contains({segment, offset});
  }

 private:
  std::vector<bool> bits_;
  absl::flat_hash_set<std::pair<uint32_t, uint64_t>> places_;
};

struct NodeSegment {
  SegmentSpec spec;
  ExtentAllocator allocator;
};

struct NodeRecord {
  NodeId id;
  NodeIndex index = 0;
  RegisterNodeCommand description;
  LabelId host = 0;
  LabelId rack = 0;
  NodeState state = NodeState::kUp;
  bool inventory_complete = false;
  absl::Time complete_since;  // this session's
  // What it holds and this master does not know was given up: it was complete once, and all that it
  // held then is known, or owed; or its incarnation was.
  bool is_met = false;
  // The same for all that it holds of this generation and older ones, and the masters to come will
  // take nothing of these from it. None any more when what it holds is known.
  Generation given_up_to;
  SessionId session;  // 0 while there is none
  // Before its session began: of what is as old its inventory names all that it has.
  Generation granted_before;
  absl::Time last_heard;
  absl::Time lost_at;                 // while away
  bool was_lost_full = false;         // what it held when it was lost has not come back with it
  std::vector<NodeSegment> segments;  // by id
  BytesByUse bytes = {};
  // It has room for so many, since its journal cannot grow; UINT64_MAX: its bytes alone bound them.
  uint64_t parts_max = UINT64_MAX;
  bool is_draining = false;  // it takes no more, and what it holds moves to others
  // It came empty: until it has been here for a while it gets less than its share.
  absl::Time empty_since = absl::InfinitePast();
  // The object of each part that stands here; the part knows its position.
  ChunkedVector<SlotIndex> parts;

  // While the inventory of a node that has come back is read: what it names, or that became live
  // since. When it is complete the others are dropped: parts[0, unswept) are still to
  // be looked at then.
  std::unique_ptr<SeenParts> seen;
  size_t unswept = 0;

  std::unique_ptr<LostParts> lost;  // damaged parts that are not found yet
  std::unique_ptr<UnprovenParts> unproven;

  std::vector<RemoveTicket> inventory_waiters;  // removals that wait for the whole inventory
  std::vector<std::pair<SlotIndex, Generation>> parked;

  bool is_up() const { return state == NodeState::kUp; }
  bool is_usable() const { return is_up() && inventory_complete; }
  bool takes_grants() const { return is_usable() && !is_draining; }
  bool is_journal_full() const { return parts_max != UINT64_MAX; }
  bool has_room_for_part() const { return parts.size() < parts_max; }
  NodeAddress address() const;
  // Of parts that are stored, or may become so.
  uint64_t held_bytes() const;
  // It is known to hold nothing, and did not come to that by being lost.
  bool is_empty() const;
  uint64_t free_bytes() const;
  uint64_t capacity_bytes() const;
  // 0 where no part may come, however small.
  uint64_t largest_free_bytes() const;
};

class NodeTable {
 public:
  explicit NodeTable(uint32_t max_nodes);

  // nullptr when there are too many.
  NodeRecord* Add(const RegisterNodeCommand& description);
  // The record is retired or lost, and holds nothing.
  void Release(NodeIndex index);
  // From now on the name is free for another incarnation.
  void Retire(NodeIndex index);
  // As Retire; the incarnation is let in again from `readmit_at` on.
  void GiveUp(NodeIndex index, absl::Time readmit_at);
  // When an incarnation that was given up is let in again; nullopt for all others.
  std::optional<absl::Time> ReadmitAt(const RegisterNodeCommand& description) const;

  NodeRecord& operator[](NodeIndex index) { return *records_[index]; }
  const NodeRecord& operator[](NodeIndex index) const { return *records_[index]; }
  // nullptr when the id names no present record.
  NodeRecord* Find(NodeId id);
  const NodeRecord* Find(NodeId id) const;
  // The current incarnation of the name.
  NodeRecord* FindByName(absl::string_view name);
  const absl::btree_map<std::string, NodeIndex>& by_name() const { return by_name_; }
  // All records, the retired ones too; nullptr where an index is unused.
  const std::deque<std::unique_ptr<NodeRecord>>& records() const { return records_; }

  LabelId FindLabel(absl::string_view name) const;

  // To be called when a node's state has changed.
  void Refresh();
  // Nodes that take grants, in the order of their indexes.
  absl::Span<const NodeIndex> usable() const { return usable_; }
  absl::Span<const NodeIndex> usable_on(LabelId host) const;
  // Of all nodes that are up or may soon be again.
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint32_t up_count() const { return up_count_; }
  // Nodes that are up and whose inventory is not complete.
  uint32_t incomplete_count() const { return incomplete_count_; }

 private:
  LabelId Intern(absl::string_view name);

  using Life = std::pair<std::string, Incarnation>;

  uint32_t max_;
  absl::btree_map<Life, absl::Time> given_up_;
  bool is_given_up_forgotten_ = false;               // then any may be one of them
  std::deque<std::unique_ptr<NodeRecord>> records_;  // by index; [0] is unused
  std::vector<uint16_t> uses_;                       // of each index: the high half of the id
  std::vector<NodeIndex> unused_;
  absl::btree_map<std::string, NodeIndex> by_name_;
  absl::flat_hash_map<std::string, LabelId> labels_;
  std::vector<NodeIndex> usable_;
  absl::flat_hash_map<LabelId, std::vector<NodeIndex>> usable_by_host_;
  uint64_t capacity_bytes_ = 0;
  uint32_t up_count_ = 0;
  uint32_t incomplete_count_ = 0;
};

}  // namespace moonpool::master
