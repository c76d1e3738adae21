// One more replica of a live object, copied from node to node: begun, completed, given up.
#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/names.h"
#include "master/core/core_state.h"
#include "master/core/replica_keeper.h"

namespace moonpool::master {
namespace {

// Replicas are evicted for as puts are, but in slices; see EvictFor.
constexpr uint32_t kEvictionsPerTurn = 1024;
constexpr uint64_t kPatience = 4;

NodeAddress AddressOf(const NodeRecord& node) {
  return NodeAddress{.node = node.id,
                     .name = node.description.name,
                     .incarnation = node.description.incarnation,
                     .host_id = node.description.host_id,
                     .tcp_address = node.description.tcp_address,
                     .shm_path = node.description.shm_path};
}

Extent ExtentOf(const StoredPart& part) {
  return Extent{SegmentId{part.segment}, part.offset, part.length};
}

}  // namespace

ReplicaKeeper::Turned ReplicaKeeper::StartCopy(SlotIndex slot, const Stand& stand, absl::Time now,
                                               uint32_t* work) {
  bool is_used[kMaxReplicas] = {};
  for (const ReplicaView& replica : stand.replicas) is_used[replica.number] = true;
  const auto* const unused = std::find(std::begin(is_used), std::end(is_used), false);
  if (unused == std::end(is_used)) return Turned::kNoNode;
  const auto number = static_cast<uint8_t>(unused - std::begin(is_used));

  bool is_busy = false;
  const ReplicaView* const source = Source(stand, now, &is_busy);
  if (source == nullptr) return is_busy ? Turned::kBusy : Turned::kUnreadable;
  CopyPlacement to = Place(slot, stand, *source, now, work);
  if (!to.placed.has_value()) {
    switch (to.bar) {
      case CopyBar::kBusy: return Turned::kBusy;
      case CopyBar::kNoNode: return Turned::kNoNode;
      case CopyBar::kNoRoom: return Turned::kNoRoom;
    }
  }
  ReplicaCopy copy{.slot = slot, .generation = core_.objects[slot].generation};
  for (size_t i = 0; i < source->parts.size(); ++i) {
    StoredPart& part = (*to.placed)[i];
    part.replica = number;
    core_.Charge(core_.nodes[part.node], ByteUse::kGranted, part.length);
    pacer_.Begin(part.node, part.length);
    pacer_.Begin(source->parts[i].node, part.length);
    copy.parts.push_back(
        CopyPart{.to = part, .from = source->parts[i].node, .claim = core_.NextGeneration()});
  }
  const double seconds = 8.0 * static_cast<double>(copy.bytes()) /
                         static_cast<double>(std::max<uint64_t>(options_.copy_bandwidth, 1));
  copy.deadline = now + options_.copy_timeout + absl::Seconds(seconds);
  Command(copy, *source, number);
  ++core_.totals.copies_started;
  copies_.Start(std::move(copy));
  return Turned::kDone;
}

const ReplicaKeeper::ReplicaView* ReplicaKeeper::Source(const Stand& stand, absl::Time now,
                                                        bool* is_busy) {
  const size_t count = stand.replicas.size();
  const size_t first = core_.random.Below(count);
  for (size_t i = 0; i < count; ++i) {
    const ReplicaView& replica = stand.replicas[(first + i) % count];
    if (!replica.is_readable) continue;
    const bool has_room =
        std::all_of(replica.parts.begin(), replica.parts.end(),
                    [&](const StoredPart& part) { return pacer_.HasRoom(part.node, now); });
    if (has_room) return &replica;
    *is_busy = true;
  }
  return nullptr;
}

CopyPlacement ReplicaKeeper::Place(SlotIndex slot, const Stand& stand, const ReplicaView& source,
                                   absl::Time now, uint32_t* work) {
  const Debt dead{core_.objects.HashOf(slot), core_.objects[slot].generation};
  std::vector<PlacedReplica> staying;
  absl::InlinedVector<NodeIndex, 8> holders;
  for (const ReplicaView& replica : stand.replicas) {
    for (const StoredPart& part : replica.parts) holders.push_back(part.node);
    if (!replica.is_leaving) staying.push_back(replica.parts);
  }
  bool was_owing = false;
  const auto fit = [&](NodeIndex index) {
    const NodeRecord& node = core_.nodes[index];
    const bool is_holder = std::find(holders.begin(), holders.end(), index) != holders.end();
    // What it is to forget it would forget with the copy.
    const bool is_owing = core_.debts.HasUnlisted(node.id) || core_.debts.IsOwed(node.id, dead) ||
                          dead.generation <= node.given_up_to;
    if (is_holder || node.description.wire_minor < kCopyMinor) return Fit::kNo;
    was_owing = was_owing || is_owing;
    return !is_owing && pacer_.HasRoom(index, now) ? Fit::kYes : Fit::kBusy;
  };
  CopyRequest request{.like = source.parts, .others = staying, .fit = fit, .now = now};
  CopyPlacement to = core_.placement.PlaceCopy(request);
  uint64_t need = 0;
  uint64_t largest = 0;
  for (const StoredPart& part : source.parts) {
    need += part.length;
    largest = std::max(largest, part.length);
  }
  // Something colder goes for it, as it did for the put. Nothing that is hotter than the object.
  uint64_t evicted = 0;
  uint64_t try_at = need;
  for (uint32_t i = 0; i < kEvictionsPerTurn && to.bar == CopyBar::kNoRoom; ++i) {
    if (to.placed.has_value() || evicted >= kPatience * need || *work == 0) break;
    --*work;
    const CoreState::Evicted step = core_.EvictOne(now, slot);
    if (step.bytes == 0) break;
    evicted += step.bytes;
    if (step.largest_hole < largest && evicted < try_at) continue;
    if (evicted >= try_at) try_at += std::max<uint64_t>(need / 4, 1);
    to = core_.placement.PlaceCopy(request);
  }
  if (!to.placed.has_value() && to.bar == CopyBar::kNoRoom) {
    request.in_any_domain = true;
    to = core_.placement.PlaceCopy(request);
  }
  // It will have forgotten soon, but not at once.
  if (to.bar == CopyBar::kBusy && was_owing) to.bar = CopyBar::kNoRoom;
  return to;
}

void ReplicaKeeper::Command(const ReplicaCopy& copy, const ReplicaView& source,
                            uint32_t replica_index) {
  const ObjectSlot& object = core_.objects[copy.slot];
  const NamespaceRecord& home = core_.namespaces[object.name_space];
  for (size_t i = 0; i < copy.parts.size(); ++i) {
    const CopyPart& part = copy.parts[i];
    const NodeRecord& target = core_.nodes[part.to.node];
    CopyCommand command{.node = target.id, .session = target.session};
    command.command_id = part.claim.value;
    command.generation = copy.generation;
    command.name_space = JoinPartNamespace({.name = home.name, .fingerprint = home.fingerprint});
    command.key = std::string(core_.objects.KeyOf(copy.slot));
    if (object.parent != kNoSlot) command.parent = std::string(core_.objects.KeyOf(object.parent));
    command.extent = ExtentOf(part.to);
    command.object_bytes = object.size_bytes;
    command.part_index = static_cast<uint32_t>(i);
    command.part_count = static_cast<uint32_t>(copy.parts.size());
    command.replica_index = replica_index;
    command.replicas = object.wished();
    command.claim = part.claim;
    command.source = AddressOf(core_.nodes[part.from]);
    command.source_extent = ExtentOf(source.parts[i]);
    command.timeout = copy.deadline - core_.last_now;
    commands_.push_back(std::move(command));
  }
}

bool ReplicaKeeper::TakeReport(SlotIndex slot, const StoredPart& part) {
  const ReplicaCopy* const copy = copies_.Find(slot);
  if (copy == nullptr) return false;
  for (const CopyPart& going : copy->parts) {
    const StoredPart& to = going.to;
    const bool is_it = to.node == part.node && to.segment == part.segment &&
                       to.offset == part.offset && to.length == part.length;
    if (!is_it) continue;
    if (copies_.MarkSealed(going.claim)) Complete(slot);
    return true;
  }
  return false;
}

bool ReplicaKeeper::TakeResult(const NodeRecord& node, uint64_t command_id,
                               const absl::Status& status, absl::Time now) {
  const Generation claim{command_id};
  const std::optional<SlotIndex> slot = copies_.FindClaim(claim);
  if (!slot.has_value()) return false;
  const ReplicaCopy& copy = *copies_.Find(*slot);
  const auto* const part =
      std::find_if(copy.parts.begin(), copy.parts.end(),
                   [&](const CopyPart& going) { return going.claim == claim; });
  if (part->to.node != node.index) return false;
  if (status.ok()) {
    if (copies_.MarkSealed(claim)) Complete(*slot);
  } else if (!part->is_sealed) {
    // Bytes that somebody still looks at are given to nobody else meanwhile.
    const bool is_pinned = ReasonOf(status) == ErrorReason::kBytesPinned;
    Cancel(*slot, CopyEnd::kFailed,
           is_pinned ? now + options_.condemn_duration : absl::InfinitePast());
  }
  // The next ones begin when others end, not only with the next tick.
  uint32_t work = 4;
  Pump(now, &work);
  return true;
}

void ReplicaKeeper::Complete(SlotIndex slot) {
  const ReplicaCopy copy = copies_.Take(slot);
  StoredParts parts;
  for (const CopyPart& part : copy.parts) {
    pacer_.End(part.from);
    pacer_.End(part.to.node);
    core_.Uncharge(core_.nodes[part.to.node], ByteUse::kGranted, part.to.length);
    parts.push_back(part.to);
  }
  ++core_.totals.copies_ended[static_cast<size_t>(CopyEnd::kDone)];
  core_.totals.copied_bytes += copy.bytes();
  if (!core_.AddReplica(slot, parts)) {
    // Nodes have brought so many meanwhile that there is no number left.
    core_.placement.GiveBack({parts.begin(), parts.end()});
    for (const StoredPart& part : parts) core_.Disown(slot, part.node);
    return Weigh(slot);
  }
  // A drained node's walk waits for what has arrived: what is to leave may leave now.
  if (const Stand stand = Look(slot); stand.staying < stand.replicas.size()) {
    queue_.Add(slot, kDrainHotRank);
  }
  ++core_.changes;
}

void ReplicaKeeper::Cancel(SlotIndex slot, CopyEnd end, absl::Time rest_until) {
  const ReplicaCopy copy = copies_.Take(slot);
  const uint64_t hash = core_.objects.HashOf(slot);
  ++core_.totals.copies_ended[static_cast<size_t>(end)];
  for (const CopyPart& part : copy.parts) {
    pacer_.End(part.from);
    pacer_.End(part.to.node);
    core_.Release(part.to, ByteUse::kGranted, {.all_until = rest_until});
    // The order that is under way is of no use, nor what may have been sealed by it.
    core_.Owe(part.to.node, {hash, part.claim});
    if (end == CopyEnd::kObjectGone) {
      core_.Owe(part.to.node, {hash, copy.generation});
    } else {
      core_.Disown(slot, part.to.node);
    }
    std::erase_if(commands_, [&](const CopyCommand& command) {
      return command.claim == part.claim;  // nobody has heard of it
    });
  }
  ++core_.changes;
  if (end == CopyEnd::kObjectGone) return;
  Weigh(slot);
  // Not queued: it was for a drain, whose next walk finds it.
  if (queue_.contains(slot)) queue_.Delay(slot, core_.last_now + options_.copy_retry);
}

void ReplicaKeeper::Owed(const NodeRecord& node, const Debt& debt) {
  if (copies_.size() == 0) return;
  for (const SlotIndex slot : copies_.To(node.index)) {
    if (copies_.Find(slot)->generation == debt.generation) return Cancel(slot, CopyEnd::kFailed);
  }
}

void ReplicaKeeper::PartsLost(const NodeRecord& node) {
  for (const SlotIndex slot : copies_.To(node.index)) {
    const ReplicaCopy& copy = *copies_.Find(slot);
    const bool is_lost =
        std::any_of(copy.parts.begin(), copy.parts.end(), [&](const CopyPart& part) {
          return part.to.node == node.index &&
                 node.lost->IsNew(part.to.segment, part.to.offset, copy.generation);
        });
    if (is_lost) Cancel(slot, CopyEnd::kFailed);
  }
}

void ReplicaKeeper::TargetGone(const NodeRecord& node) {
  for (const SlotIndex slot : copies_.To(node.index)) Cancel(slot, CopyEnd::kTargetGone);
}

}  // namespace moonpool::master
