// Keeps live objects at the number of replicas that they are to have, where they are to have them.
//
// Too few: a node was lost, a part was damaged, a put was content with less. Another copy is made.
// Too many: a node has come back with what was rebuilt elsewhere, or the object is hot no more. The
// one that is needed least goes. In the wrong place: its node is drained. One copy more, and then
// that one goes.
//
// Weigh is told whenever an object's replicas change; it only lists the object. What is to be done
// is decided in Pump, when its turn comes, by what is true then. So nothing has to be taken back
// when the reason has gone. Work is bounded per tick, bytes per second and node.
//
// Part of CoreState, whose books it uses; see there for time.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "master/core/commands.h"
#include "master/core/copy_pacer.h"
#include "master/core/copy_table.h"
#include "master/core/debt_table.h"
#include "master/core/doubted_sources.h"
#include "master/core/drain_table.h"
#include "master/core/eviction_pauses.h"
#include "master/core/heat.h"
#include "master/core/hot_table.h"
#include "master/core/node_commands.h"
#include "master/core/node_table.h"
#include "master/core/options.h"
#include "master/core/placement.h"
#include "master/core/repair_queue.h"

namespace moonpool::master {

struct CoreState;

class ReplicaKeeper {
 public:
  ReplicaKeeper(CoreState& core, const CoreOptions& options);

  // --- core_repair.cc

  // The replicas of a live object have come, gone, or become more or fewer than wished for.
  void Weigh(SlotIndex slot);
  // A live object goes: so does the copy of it that is in flight.
  void Forget(SlotIndex slot);
  // Nodes take grants that took none before.
  void NodesJoined() { queue_.WakeAll(); }

  // Chores of a tick. Each does at most *work steps and subtracts what it did.

  // Copies whose time is over are given up.
  void EndLate(absl::Time now, uint32_t* work);
  // Objects that are read no more lose what they have for that. In core_hot.cc.
  void Cool(absl::Time now, uint32_t* work);
  // Lists objects that are to move. In core_drain.cc.
  void WalkDrains(absl::Time now, uint32_t* work);
  // Objects that are listed have their turns.
  void Serve(absl::Time now, uint32_t* work);

  // --- core_copy.cc

  // A report of the object's generation is that of a copy in flight.
  bool TakeReport(SlotIndex slot, const StoredPart& part);
  // A result is that of a copy in flight to this node.
  bool TakeResult(const NodeRecord& node, uint64_t command_id, const absl::Status& status,
                  absl::Time now);
  // The node is to forget the generation: with it would go what a copy brings.
  void Owed(const NodeRecord& node, const Debt& debt);
  // The node has lost parts. Copies that had brought some of them fail.
  void PartsLost(const NodeRecord& node);
  // The node's session ends: it takes no copies any more.
  void TargetGone(const NodeRecord& node);
  std::vector<CopyCommand> TakeCommands() { return std::exchange(commands_, {}); }
  // Grants that are still to be used by nodes; nothing older may be refused for good.
  std::optional<Generation> OldestClaim() const { return copies_.OldestClaim(); }

  // --- core_hot.cc

  void OnRead(SlotIndex slot);
  // A replica goes that an object had for being hot, and is not; the bytes that this frees. 0:
  // none. Not of `spare`.
  uint64_t DropExtra(absl::Time now, SlotIndex spare);

  // --- core_drain.cc

  DrainTable& drains() { return drains_; }
  const DrainTable& drains() const { return drains_; }
  std::optional<DrainStatus> DrainOf(const NodeRecord& node) const;

  // --- Looking.

  uint64_t short_objects() const { return short_objects_; }
  const CopyTable& copies() const { return copies_; }
  const RepairQueue& queue() const { return queue_; }
  const HotTable& hot() const { return hot_; }
  uint32_t CopiesOf(NodeIndex node) const { return pacer_.InFlight(node); }
  bool IsCared(SlotIndex slot) const {
    return queue_.contains(slot) || copies_.Find(slot) != nullptr;
  }

 private:
  struct ReplicaView {
    uint8_t number = 0;
    bool is_readable = true;  // all its nodes are up
    bool is_sure = true;      // all its parts are known to be where they should be
    bool is_leaving = false;  // one of them is drained
    PlacedReplica parts = {};
  };
  using ReplicaViews = absl::InlinedVector<ReplicaView, 4>;
  struct Stand {
    ReplicaViews replicas;
    uint32_t staying = 0;       // those that are not leaving
    uint32_t staying_sure = 0;  // of them
  };
  // What a turn came to; where it waits for something, for what.
  // kOutOfWork: it goes on in the next tick.
  enum class Turned : uint8_t { kDone, kBusy, kOutOfWork, kNoNode, kNoRoom, kUnreadable, kLeased };
  // Where a copy goes, or why it goes nowhere.
  struct Destination {
    std::optional<PlacedReplica> placed = {};
    Turned came_to = Turned::kDone;
  };
  // What was evicted for one object's copy so far. It may take several ticks.
  struct RoomSearch {
    SlotIndex slot = kNoSlot;
    Generation generation = {};
    uint32_t evictions = 0;
    uint64_t bytes = 0;
    uint64_t bytes_there = 0;  // of them where the copy may go
  };

  // --- core_repair.cc
  Stand Look(SlotIndex slot) const;
  // The part is where it should be, by the word of its node: other replicas may go.
  bool IsSure(SlotIndex slot, const StoredPart& part) const;
  RepairRank RankOf(SlotIndex slot, uint32_t have) const;
  void Pump(absl::Time now, uint32_t* work);
  Turned Tend(SlotIndex slot, absl::Time now, uint32_t* work);
  // The replica that is needed least where so many are to stay; -1 when none may go.
  int Spare(const Stand& stand, uint32_t goal) const;
  // Returns the bytes that this frees for others.
  uint64_t Drop(SlotIndex slot, const ReplicaView& replica);
  void Defer(const RepairQueue::Turn& turn, Turned why, absl::Time now);
  absl::Duration Age() const;

  // --- core_copy.cc
  Turned StartCopy(SlotIndex slot, const Stand& stand, absl::Time now, uint32_t* work);
  // nullptr: none is readable, or (`is_busy`) none may be read from now.
  const ReplicaView* Source(const Stand& stand, absl::Time now, bool* is_busy);
  Destination Place(SlotIndex slot, const Stand& stand, const ReplicaView& source, absl::Time now,
                    uint32_t* work);
  // Evicts what would go before the object, until a copy of it fits on one of these nodes. kNoRoom:
  // it does not, whatever else may be evicted for it now.
  Destination MakeRoom(SlotIndex slot, const CopyRequest& request, std::vector<NodeIndex> nodes,
                       bool is_extra, uint32_t* work);
  void Command(const ReplicaCopy& copy, const ReplicaView& source, uint32_t replica_index);
  void Complete(SlotIndex slot);
  // The copy failed for what its source has, or has not.
  void DoubtSource(const ReplicaCopy& copy, const CopyPart& part, const absl::Status& status);
  void Cancel(SlotIndex slot, CopyEnd end, absl::Time rest_until = absl::InfinitePast());

  // --- core_drain.cc
  // Goes on until so many objects wait for their turn.
  void WalkNode(NodeRecord& node, Drain& drain, size_t most_ahead, absl::Time now, uint32_t* work);
  void NoteStuck(const Stand& stand, Turned why);

  CoreState& core_;
  const CoreOptions& options_;
  HeatScale heat_;
  CopyTable copies_;
  CopyPacer pacer_;
  RepairQueue queue_;
  DrainTable drains_;
  std::vector<CopyCommand> commands_;
  EvictionPauses pauses_;
  DoubtedSources doubted_;
  RoomSearch search_;
  uint64_t short_objects_ = 0;
  HotTable hot_;
  SlotIndex last_of_hot_ = kNoSlot;  // that was looked at for room
};

}  // namespace moonpool::master
