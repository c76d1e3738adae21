// Parts that nodes have found damaged: as much of an object is gone as with a node that is lost.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

using Badness = absl::FunctionRef<int(const StoredPart&)>;
using ReplicaParts = absl::Span<StoredPart>;

bool AreOfOneCut(ReplicaParts a, ReplicaParts b) {
  return a[0].cut == b[0].cut && std::equal(a.begin(), a.end(), b.begin(), b.end(),
                                            [](const StoredPart& one, const StoredPart& other) {
                                              return one.length == other.length;
                                            });
}

int WorstOf(ReplicaParts replica, Badness badness) {
  int worst = 0;
  for (const StoredPart& part : replica) worst = std::max(worst, badness(part));
  return worst;
}

// Whether fewer replicas need to have parts that are as bad.
bool CanSaveAny(absl::Span<const ReplicaParts> replicas, Badness badness) {
  for (int bad = 1; bad <= WorstOf(replicas[0], badness); ++bad) {
    const auto count = [&](auto is_it) {
      return std::count_if(replicas.begin(), replicas.end(), is_it);
    };
    const auto have = count([&](ReplicaParts r) { return WorstOf(r, badness) >= bad; });
    ptrdiff_t need = 0;
    for (size_t i = 0; i < replicas[0].size(); ++i) {
      need = std::max(need, count([&](ReplicaParts r) { return badness(r[i]) >= bad; }));
    }
    if (have > need) return true;
  }
  return false;
}

// The worst of each part go to the first replica, and so on. Those that are all good stay as they
// are. False: that helps none.
bool GatherInCut(absl::Span<ReplicaParts> replicas, Badness badness) {
  std::stable_sort(replicas.begin(), replicas.end(), [&](ReplicaParts a, ReplicaParts b) {
    return WorstOf(a, badness) > WorstOf(b, badness);
  });
  if (!CanSaveAny(replicas, badness)) return false;
  for (size_t i = 0; i < replicas[0].size(); ++i) {
    StoredParts same;
    for (const ReplicaParts replica : replicas) same.push_back(replica[i]);
    std::stable_sort(same.begin(), same.end(), [&](const StoredPart& a, const StoredPart& b) {
      return badness(a) > badness(b);
    });
    for (size_t r = 0; r < replicas.size(); ++r) {
      same[r].replica = replicas[r][i].replica;
      replicas[r][i] = same[r];
    }
  }
  return true;
}

}  // namespace

void Core::PartsLost(NodeId node, SessionId session, absl::Span<const LostPart> parts,
                     absl::Time now) {
  CoreState& s = *state_;
  NodeRecord* const record = s.SessionOf(node, session, now);
  if (record == nullptr) return;
  s.totals.parts_damaged += parts.size();
  if (record->lost == nullptr) record->lost = std::make_unique<LostParts>();
  if (record->lost->Add(parts)) return s.ForgetUnlisted(*record, parts);
  s.TakeInventoryAnew(*record, now);  // it tells what is left
}

bool CoreState::LoseParts(SlotIndex slot, PartTest is_gone, absl::Time now, DeathCause cause) {
  bool is_any_gone = false;
  objects.ForEachPart(slot, [&](const StoredPart& part) { is_any_gone |= is_gone(part); });
  if (!is_any_gone) return false;
  Gather(slot, [&](const StoredPart& part) {
    if (is_gone(part)) return 3;
    const NodeRecord& node = nodes[part.node];
    // The sweep comes to one node after the other; what it will find is known.
    const bool is_unnamed = node.seen != nullptr && !HasSeen(slot, part);
    const bool may_be_named = is_unnamed && !node.inventory_complete;
    if (node.state == NodeState::kAway || may_be_named) return 1;
    const bool is_named_lost = node.lost != nullptr && node.lost->Names(part.segment, part.offset,
                                                                        objects[slot].generation);
    return is_unnamed || is_named_lost || !node.is_up() ? 2 : 0;
  });
  bool is_broken[256] = {};
  objects.ForEachPart(slot,
                      [&](const StoredPart& part) { is_broken[part.replica] |= is_gone(part); });
  const uint32_t left = DropReplicas(slot, [&](uint8_t replica) { return is_broken[replica]; });
  if (objects[slot].state == ObjectState::kGranted) {
    if (left < grants.At(slot).min_replicas) Erase(slot, DeathCause::kAborted, now);
    return true;
  }
  if (left == 0) {
    Erase(slot, cause, now);
    ++totals.lost;
    return true;
  }
  objects[slot].is_parked = false;
  UpdateEvictable(slot);
  return true;
}

void CoreState::Gather(SlotIndex slot, Badness badness) {
  if (objects[slot].state != ObjectState::kLive || !objects[slot].has_list) return;
  StoredParts parts = objects.PartsOf(slot);
  absl::InlinedVector<absl::Span<StoredPart>, kMaxReplicas> replicas;
  for (size_t i = 0, first = 0; i < parts.size(); ++i) {
    if (i + 1 < parts.size() && parts[i + 1].replica == parts[first].replica) continue;
    replicas.push_back(absl::MakeSpan(parts).subspan(first, i + 1 - first));
    first = i + 1;
  }
  bool has_changed = false;
  while (!replicas.empty()) {
    const absl::Span<StoredPart> one = replicas.front();
    const auto others = std::stable_partition(
        replicas.begin(), replicas.end(),
        [&](absl::Span<StoredPart> other) { return AreOfOneCut(one, other); });
    has_changed |= GatherInCut(
        absl::MakeSpan(replicas).first(static_cast<size_t>(others - replicas.begin())), badness);
    replicas.erase(replicas.begin(), others);
  }
  if (has_changed) objects.SetParts(slot, std::move(parts));
}

void CoreState::ForgetUnlisted(const NodeRecord& node, absl::Span<const LostPart> parts) {
  keeper.PartsLost(node);
  for (const LostPart& lost : parts) {
    const auto id = partials.At(node.id, lost.extent.segment.value, lost.extent.offset);
    if (!id.has_value() || id->generation != lost.generation) continue;
    const PartialObject& object = *partials.Find(*id);
    const SlotIndex slot = objects.Find(id->key_hash, object.name_space, object.key);
    const bool is_live = slot != kNoSlot && objects.FindGeneration(slot, id->generation) != nullptr;
    const Debt debt{id->key_hash, id->generation};
    DropPartialAt(node.id, debt);
    // The others that it has of them are whole, and of no use.
    is_live ? Disown(slot, node.index) : Owe(node.index, debt);
  }
}

void CoreState::NoteUnproven(SlotIndex slot, absl::Time now) {
  uint16_t parts[kMaxReplicas] = {};
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    const SealMark mark{.replica = part.replica, .part = parts[part.replica]++};
    NodeRecord& node = nodes[part.node];
    const Generation generation = objects[slot].generation;
    const bool is_proven =
        generation > node.granted_before || grants.SealedIn(slot, mark) == node.session;
    if (!node.is_up() || is_proven) return;
    if (node.unproven == nullptr) node.unproven = std::make_unique<UnprovenParts>();
    node.unproven->Add(part, {slot, generation}, now + options.partial_timeout);
  });
}

void CoreState::LoseUnproven(NodeRecord& node, absl::Time now, uint32_t* work) {
  // Until its inventory is uploaded the node tells nothing else.
  if (!node.inventory_complete || now < node.complete_since + options.partial_timeout) return;
  while (*work > 0 && node.unproven != nullptr) {
    const std::optional<UnprovenParts::Due> due = node.unproven->TakeDue(now);
    if (!due.has_value()) return;
    --*work;
    const auto& [slot, generation] = due->owner;
    if (objects.FindGeneration(slot, generation) == nullptr) continue;
    LoseParts(
        slot,
        [&](const StoredPart& part) {
          return part.node == node.index && part.segment == due->segment &&
                 part.offset == due->offset;
        },
        now, DeathCause::kDamaged);
  }
}

void CoreState::FindLostParts(NodeRecord& node, absl::Time now, uint32_t* work) {
  size_t position = 0;
  while (*work > 0 && node.lost != nullptr) {
    if (!node.lost->Next(node.parts.size(), &position)) {
      node.lost = nullptr;
      return;
    }
    --*work;
    const SlotIndex slot = node.parts[position];
    const Generation generation = objects[slot].generation;
    LoseParts(
        slot,
        [&](const StoredPart& part) {
          return part.node == node.index &&
                 node.lost->Contains(part.segment, part.offset, generation);
        },
        now, DeathCause::kDamaged);
  }
}

}  // namespace moonpool::master
