// One more replica of a live object, copied from node to node: begun, completed, given up.
#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/names.h"
#include "master/core/core_state.h"
#include "master/core/replica_keeper.h"

namespace moonpool::master {
namespace {

// What goes for a copy at most: so many objects, and so many times its own bytes, fewer where it
// may go. One object of its size is enough where it may go; holes between small ones are luck.
constexpr uint32_t kEvictionsPerSearch = 1024;
constexpr uint64_t kBytesPerSearch = 4;
constexpr uint64_t kBytesTherePerSearch = 2;

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
  const Destination to = Place(slot, stand, *source, now, work);
  if (!to.placed.has_value()) return to.came_to;
  if (search_.slot == slot) search_ = {};  // wherever the room came from
  ReplicaCopy copy{.slot = slot, .generation = core_.objects[slot].generation};
  for (size_t i = 0; i < source->parts.size(); ++i) {
    StoredPart part = (*to.placed)[i];
    part.replica = number;
    part.cut = source->parts[i].cut;
    core_.Charge(core_.nodes[part.node], ByteUse::kGranted, part.length);
    pacer_.Begin(part.node, part.length);
    pacer_.Begin(source->parts[i].node, part.length);
    copy.parts.push_back(
        CopyPart{.to = part, .from = source->parts[i].node, .claim = core_.NextGeneration()});
  }
  const double seconds = 8.0 * static_cast<double>(copy.bytes()) /
                         static_cast<double>(std::max<uint64_t>(options_.copy_bandwidth, 1));
  copy.deadline = now + options_.copy_timeout + absl::Seconds(seconds);
  // What is recorded. Where there are several parts a master to come puts together those of one
  // number, and some may be left anywhere of a replica that is gone: so a number stands for one
  // cut, for ever.
  Command(copy, *source, copy.parts.size() > 1 ? source->parts[0].cut : number);
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

ReplicaKeeper::Destination ReplicaKeeper::Place(SlotIndex slot, const Stand& stand,
                                                const ReplicaView& source, absl::Time now,
                                                uint32_t* work) {
  const Debt dead{core_.objects.HashOf(slot), core_.objects[slot].generation};
  const PartialTable::Id waiting{dead.key_hash, dead.generation};
  PlacedReplicas staying;
  absl::InlinedVector<NodeIndex, 8> holders;
  for (const ReplicaView& replica : stand.replicas) {
    for (const StoredPart& part : replica.parts) holders.push_back(part.node);
    if (!replica.is_leaving) staying.push_back(replica.parts);
  }
  bool was_owing = false;
  bool was_waiting = false;
  const auto fit = [&](NodeIndex index) {
    const NodeRecord& node = core_.nodes[index];
    const bool is_holder = std::find(holders.begin(), holders.end(), index) != holders.end();
    // What it is to forget it would forget with the copy.
    const bool is_owing = core_.debts.HasUnlisted(node.id) || core_.debts.IsOwed(node.id, dead) ||
                          dead.generation <= node.given_up_to;
    // A part that waits there for others would stand beside the copy once they come.
    const bool is_waiting = core_.partials.HasPartAt(waiting, node.id);
    if (is_holder || node.description.wire_minor < kCopyMinor) return Fit::kNo;
    was_owing = was_owing || is_owing;
    was_waiting = was_waiting || is_waiting;
    // All of them may come to this one.
    const bool has_room = pacer_.HasRoom(index, now, source.parts.size());
    return !is_owing && !is_waiting && has_room ? Fit::kYes : Fit::kBusy;
  };
  CopyRequest request{.like = source.parts, .others = staying, .fit = fit, .now = now};
  const auto turned = [&](CopyBar bar) {
    if (bar == CopyBar::kNoNode) return Turned::kNoNode;
    if (bar == CopyBar::kBusy && was_waiting) {
      // No other node is as good now, and the copy is surer than that the others come.
      core_.GiveUpPartial(waiting);
      was_owing = true;
    }
    // A node that owes will have forgotten soon, but not at once.
    return bar == CopyBar::kNoRoom || was_owing ? Turned::kNoRoom : Turned::kBusy;
  };
  CopyPlacement free = core_.placement.PlaceCopy(request);
  if (free.placed.has_value()) return {.placed = std::move(free.placed)};
  if (free.bar != CopyBar::kNoRoom) return {.came_to = turned(free.bar)};
  const bool is_extra = stand.staying >= core_.objects[slot].wished();
  Destination made = MakeRoom(slot, request, std::move(free.too_full), is_extra, work);
  if (made.came_to != Turned::kNoRoom) return made;
  // Better beside another replica than nowhere.
  request.in_any_domain = true;
  CopyPlacement anywhere = core_.placement.PlaceCopy(request);
  if (anywhere.placed.has_value()) return {.placed = std::move(anywhere.placed)};
  return {.came_to = turned(anywhere.bar)};
}

ReplicaKeeper::Destination ReplicaKeeper::MakeRoom(SlotIndex slot, const CopyRequest& request,
                                                   std::vector<NodeIndex> nodes, bool is_extra,
                                                   uint32_t* work) {
  uint64_t need = 0;
  uint64_t largest = 0;
  for (const StoredPart& part : request.like) {
    need += part.length;
    largest = std::max(largest, part.length);
  }
  std::erase_if(nodes,
                [&](NodeIndex node) { return pauses_.IsPaused(node, largest, request.now); });
  if (nodes.empty()) return {.came_to = Turned::kNoRoom};
  const Generation generation = core_.objects[slot].generation;
  if (search_.slot != slot || search_.generation != generation) {
    search_ = {.slot = slot, .generation = generation};
  }
  // What is read most takes the place of as much that is colder, not of more.
  const uint64_t most = is_extra ? need : kBytesPerSearch * need;
  const uint64_t most_there = is_extra ? need : kBytesTherePerSearch * need;
  uint64_t try_at = std::max(need, search_.bytes);
  while (search_.bytes < most && search_.bytes_there < most_there &&
         search_.evictions < kEvictionsPerSearch) {
    if (*work == 0) return {.came_to = Turned::kOutOfWork};
    --*work;
    const CoreState::Evicted step = core_.EvictOne(request.now, slot);
    if (step.bytes == 0) break;
    ++search_.evictions;
    search_.bytes += step.bytes;
    StoredParts there;
    for (const StoredPart& part : step.parts) {
      if (!std::binary_search(nodes.begin(), nodes.end(), part.node)) continue;
      there.push_back(part);
      search_.bytes_there += ExtentAllocator::Rounded(part.length);
    }
    if (core_.LargestHoleAt(there) < largest && search_.bytes < try_at) continue;
    if (search_.bytes >= try_at) try_at += std::max<uint64_t>(need / 4, 1);
    CopyPlacement to = core_.placement.PlaceCopy(request);
    if (!to.placed.has_value()) continue;
    for (const StoredPart& part : *to.placed) pauses_.End(part.node, largest);
    return {.placed = std::move(to.placed)};
  }
  if (search_.evictions > 0) {
    for (const NodeIndex node : nodes) pauses_.Extend(node, largest, request.now);
  }
  search_ = {};
  return {.came_to = Turned::kNoRoom};
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
    command.source = core_.nodes[part.from].address();
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
    DoubtSource(copy, *part, status);
    Cancel(*slot, CopyEnd::kFailed,
           is_pinned ? now + options_.condemn_duration : absl::InfinitePast());
  }
  // The next ones begin when others end, not only with the next tick.
  uint32_t work = 4;
  Pump(now, &work);
  return true;
}

void ReplicaKeeper::DoubtSource(const ReplicaCopy& copy, const CopyPart& part,
                                const absl::Status& status) {
  // That it cannot be reached from there is another matter, and may be over soon.
  const bool is_bad = absl::IsDataLoss(status) || absl::IsNotFound(status);
  if (!is_bad) return;
  // It may be gone meanwhile, with its record.
  const NodeRecord* const named =
      core_.nodes.FindByName(DetailOf(status).value_or(ErrorDetail{}).node);
  if (named == nullptr || named->index != part.from) return;
  doubted_.Add(copy.slot, copy.generation, part.from, core_.last_now);
}

void ReplicaKeeper::Complete(SlotIndex slot) {
  const ReplicaCopy copy = copies_.Take(slot);
  StoredParts parts;
  for (const CopyPart& part : copy.parts) {
    pacer_.End(part.from);
    pacer_.End(part.to.node);
    doubted_.Remove(slot, part.to.node);
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
