// Which objects need another replica, or one less, and in what order they get it.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "master/core/core_state.h"
#include "master/core/replica_keeper.h"

namespace moonpool::master {
namespace {

// Turns that come to nothing, since some node has enough to do, before the others have to wait.
constexpr uint32_t kTurnsInVain = 64;
// Of those whose waiting time is over, per tick: what cannot be helped costs little.
constexpr uint32_t kWokenPerTick = 64;
// Between two times that something is evicted for a copy in vain: of copy_retry.
constexpr int kLongestPause = 64;
// Nothing is read for a copy from where it was damaged or missing: of copy_retry.
constexpr int kDoubtFor = 12;

}  // namespace

ReplicaKeeper::ReplicaKeeper(CoreState& core, const CoreOptions& options)
    : core_(core),
      options_(options),
      heat_(options.hot_reads, options.hot_window),
      pacer_(options.copy_bandwidth, options.copies_per_node),
      pauses_(options.copy_retry, kLongestPause * options.copy_retry),
      doubted_(kDoubtFor * options.copy_retry) {}

absl::Duration ReplicaKeeper::Age() const { return core_.last_now - core_.started; }

RepairRank ReplicaKeeper::RankOf(SlotIndex slot, uint32_t have) const {
  const bool is_cold = heat_.WindowsSince(core_.objects[slot].heat, Age()) > 1;
  if (have <= 1) return is_cold ? kOneLeftColdRank : kOneLeftHotRank;
  if (have == 2) return is_cold ? kTwoLeftColdRank : kTwoLeftHotRank;
  return is_cold ? kMoreLeftColdRank : kMoreLeftHotRank;
}

void ReplicaKeeper::Weigh(SlotIndex slot) {
  ObjectSlot& object = core_.objects[slot];
  if (object.state != ObjectState::kLive) return;
  const bool is_simple = object.node != 0;  // one replica of one part
  const uint32_t have = is_simple ? 1 : core_.ReplicaCount(slot);
  const bool is_short = have < object.wished();
  if (is_short != object.is_short) {
    if (is_short) {
      ++short_objects_;
    } else {
      --short_objects_;
    }
    object.is_short = is_short;
  }
  if (copies_.Find(slot) != nullptr) return;  // its end weighs it again
  if (is_short) {
    queue_.Add(slot, RankOf(slot, have));
  } else if (have < object.wished() + object.extra) {
    queue_.Add(slot, kExtraRank);
  } else if (have > object.wished() + object.extra) {
    queue_.Add(slot, kTrimRank);
  } else if (!queue_.IsOfDrain(slot)) {
    queue_.Remove(slot);  // a new master hears of one replica after the other
  }
}

void ReplicaKeeper::Forget(SlotIndex slot) {
  ObjectSlot& object = core_.objects[slot];
  if (object.state != ObjectState::kLive) return;
  if (copies_.Find(slot) != nullptr) Cancel(slot, CopyEnd::kObjectGone);
  queue_.Remove(slot);
  hot_.Remove(slot);
  if (object.is_short) --short_objects_;
  object.is_short = false;
  object.extra = 0;
}

ReplicaKeeper::Stand ReplicaKeeper::Look(SlotIndex slot) const {
  Stand stand;
  core_.objects.ForEachPart(slot, [&](const StoredPart& part) {
    if (stand.replicas.empty() || stand.replicas.back().number != part.replica) {
      stand.replicas.emplace_back().number = part.replica;
    }
    ReplicaView& replica = stand.replicas.back();
    const NodeRecord& node = core_.nodes[part.node];
    const bool is_doubted =
        doubted_.Contains(slot, core_.objects[slot].generation, part.node, core_.last_now);
    replica.is_readable = replica.is_readable && node.is_up() && !is_doubted;
    replica.is_sure = replica.is_sure && IsSure(slot, part) && !is_doubted;
    replica.is_leaving = replica.is_leaving || node.is_draining;
    replica.parts.push_back(part);
  });
  for (const ReplicaView& replica : stand.replicas) {
    if (replica.is_leaving) continue;
    ++stand.staying;
    if (replica.is_sure) ++stand.staying_sure;
  }
  return stand;
}

bool ReplicaKeeper::IsSure(SlotIndex slot, const StoredPart& part) const {
  const NodeRecord& node = core_.nodes[part.node];
  // One that came back may have lost it: its inventory tells, and then what that does not name
  // goes.
  const bool is_named = node.seen == nullptr || core_.HasSeen(slot, part);
  const Generation generation = core_.objects[slot].generation;
  // Of one that is not believed the next master would free it.
  if (!node.is_usable() || !is_named || generation <= node.given_up_to) return false;
  return node.lost == nullptr || !node.lost->Names(part.segment, part.offset, generation);
}

void ReplicaKeeper::EndLate(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<SlotIndex> late = copies_.Due(now);
    if (!late.has_value()) break;
    Cancel(*late, CopyEnd::kTimedOut);
    --*work;
  }
}

void ReplicaKeeper::Serve(absl::Time now, uint32_t* work) {
  queue_.Wake(now, std::min(kWokenPerTick, *work));
  Pump(now, work);
}

void ReplicaKeeper::Pump(absl::Time now, uint32_t* work) {
  // After a master's start nodes bring what they hold, one after the other: what seems to be
  // missing may be on its way.
  if (now < core_.started + options_.node_loss_timeout) return;
  if (core_.nodes.incomplete_count() > 0 && now < core_.started + options_.partial_timeout) return;
  uint32_t in_vain = 0;
  bool is_all_in_vain = true;
  while (*work > 0 && in_vain < kTurnsInVain) {
    const std::optional<RepairQueue::Turn> turn = queue_.Take();
    if (!turn.has_value()) break;
    --*work;
    const Turned came_to = Tend(turn->slot, now, work);
    if (came_to == Turned::kBusy) {
      queue_.Add(turn->slot, turn->rank);
      ++in_vain;
      continue;
    }
    is_all_in_vain = false;
    if (came_to == Turned::kDone) continue;
    if (came_to == Turned::kOutOfWork) {
      queue_.Remove(turn->slot);  // as in Defer
      queue_.PutBack(*turn);
    } else {
      Defer(*turn, came_to, now);
    }
  }
  // That there is no more to be done now is not a reason to be called again at once. That a few of
  // many have to wait is no reason not to be.
  if (is_all_in_vain) *work += in_vain;
}

void ReplicaKeeper::Defer(const RepairQueue::Turn& turn, Turned why, absl::Time now) {
  queue_.Remove(turn.slot);  // what its turn has brought may have listed it again
  if (turn.rank == kDrainHotRank || turn.rank == kDrainColdRank) {
    // The next walk finds it. But it may have another number of replicas, too, and lose its node.
    Weigh(turn.slot);
    if (queue_.contains(turn.slot)) queue_.Delay(turn.slot, now + options_.copy_retry);
    return;
  }
  switch (why) {
    case Turned::kNoNode: return queue_.PutToSleep(turn);
    case Turned::kLeased: return queue_.Postpone(turn, core_.ProtectedUntil(turn.slot));
    default: return queue_.Postpone(turn, now + options_.copy_retry);
  }
}

ReplicaKeeper::Turned ReplicaKeeper::Tend(SlotIndex slot, absl::Time now, uint32_t* work) {
  for (;;) {
    ObjectSlot& object = core_.objects[slot];
    if (object.state != ObjectState::kLive || copies_.Find(slot) != nullptr) return Turned::kDone;
    const Stand stand = Look(slot);
    const uint32_t goal = object.wished() + object.extra;
    if (stand.staying < goal) {
      const Turned started = StartCopy(slot, stand, now, work);
      const bool goes_on =
          started == Turned::kDone || started == Turned::kBusy || started == Turned::kOutOfWork;
      if (goes_on) return started;
      // What would only help is done without, and what is there of it stays. So nothing waits for
      // it, least of all a replica that is to leave.
      if (stand.staying >= object.wished()) {
        object.extra = (stand.staying - object.wished()) & 7;
        continue;
      }
      NoteStuck(stand, started);
      return started;
    }
    const int spare = Spare(stand, goal);
    if (spare < 0) {
      if (stand.replicas.size() == goal) return Turned::kDone;
      NoteStuck(stand, Turned::kUnreadable);
      return Turned::kUnreadable;
    }
    if (now < core_.ProtectedUntil(slot)) {
      NoteStuck(stand, Turned::kLeased);
      return Turned::kLeased;
    }
    Drop(slot, stand.replicas[static_cast<size_t>(spare)]);
  }
}

int ReplicaKeeper::Spare(const Stand& stand, uint32_t goal) const {
  // Those that are away may never return, or without it.
  if (stand.staying_sure < goal) return -1;
  for (size_t i = 0; i < stand.replicas.size(); ++i) {
    if (stand.replicas[i].is_leaving) return static_cast<int>(i);
  }
  if (stand.staying_sure == goal) return -1;
  // The one that shares most with the others; among equals the one on the fullest node.
  int spare = -1;
  std::pair<uint32_t, double> most;
  for (size_t i = 0; i < stand.replicas.size(); ++i) {
    const ReplicaView& replica = stand.replicas[i];
    if (!replica.is_sure) continue;
    uint32_t shared = 0;
    double full = 0;
    for (const StoredPart& part : replica.parts) {
      const NodeRecord& node = core_.nodes[part.node];
      full = std::max(full, 1.0 - static_cast<double>(node.free_bytes()) /
                                      static_cast<double>(node.capacity_bytes()));
      for (const ReplicaView& other : stand.replicas) {
        if (&other == &replica) continue;
        for (const StoredPart& beside : other.parts) {
          const NodeRecord& neighbour = core_.nodes[beside.node];
          if (node.index == neighbour.index) shared += 4;
          if (node.host != 0 && node.host == neighbour.host) shared += 2;
          if (node.rack != 0 && node.rack == neighbour.rack) shared += 1;
        }
      }
    }
    if (spare >= 0 && std::pair(shared, full) <= most) continue;
    spare = static_cast<int>(i);
    most = {shared, full};
  }
  return spare;
}

uint64_t ReplicaKeeper::Drop(SlotIndex slot, const ReplicaView& replica) {
  const uint8_t number = replica.number;
  const uint32_t left =
      core_.DropReplicas(slot, [number](uint8_t other) { return other == number; });
  MP_CHECK(left > 0, "the last replica is not to spare", slot);
  uint64_t freed = 0;
  for (const StoredPart& part : replica.parts) {
    const NodeRecord& node = core_.nodes[part.node];
    if (node.takes_grants()) freed += ExtentAllocator::Rounded(part.length);
    Drain* const drain = node.is_draining ? drains_.Find(node.description.name) : nullptr;
    if (drain == nullptr) continue;
    ++drain->moved_objects;
    drain->moved_bytes += part.length;
  }
  if (!replica.is_leaving) ++core_.totals.replicas_trimmed;
  core_.objects[slot].is_parked = false;
  core_.UpdateEvictable(slot);
  ++core_.changes;  // somebody may be waiting for space
  return freed;
}

}  // namespace moonpool::master
