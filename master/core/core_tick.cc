// What time does: things run out, lost nodes are emptied, commands are repeated. In slices.
#include <algorithm>
#include <iterator>
#include <utility>

#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

// What comes in slices. Each does at most *work steps and subtracts what it did.
using Chore = void (*)(CoreState& s, absl::Time now, uint32_t* work);
constexpr Chore kChores[] = {
    [](CoreState& s, absl::Time now, uint32_t* work) { s.ExpireLeases(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.TellDelayed(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.ExpireCondemned(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.ExpireGrants(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.ExpirePartials(now, work); },
    [](CoreState& s, absl::Time, uint32_t* work) { s.ReleaseTombs(work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.RepeatCommands(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.SweepNodes(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.keeper.EndLate(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.keeper.Cool(now, work); },
    [](CoreState& s, absl::Time now, uint32_t* work) { s.keeper.WalkDrains(now, work); },
};

}  // namespace

bool Core::Tick(absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  if (now >= s.hold_until && s.hold_until != absl::InfinitePast()) {
    s.hold_until = absl::InfinitePast();
    ++s.changes;  // what was adopted may be evicted now
  }
  s.CloseRegistry(now);
  s.RetakeInventories(now);
  s.BelieveNodes();
  s.LoseNodes(now);
  for (const auto& record : s.nodes.records()) {
    if (record != nullptr && record->is_up()) s.SendUnsent(*record, now);
  }
  return s.DoChores(now);
}

bool CoreState::DoChores(absl::Time now) {
  uint32_t work = options.work_per_tick;
  size_t chore = next_chore;
  for (size_t i = 0; i < std::size(kChores) && work > 0; ++i) {
    kChores[chore](*this, now, &work);
    chore = (chore + 1) % std::size(kChores);
  }
  // Behind the one that has used the slice up: one of which there is no end, such as leases that
  // run out as fast as they are looked at, would keep all others waiting.
  next_chore = work == 0 ? chore : 0;
  uint32_t copy_work = options.copy_work_per_tick;
  keeper.Serve(now, &copy_work);
  return work == 0 || copy_work == 0;
}

void CoreState::ExpireLeases(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<SlotIndex> slot = leases.Due(now);
    if (!slot.has_value()) break;
    leases.End(*slot);
    objects[*slot].is_leased = false;
    UpdateEvictable(*slot);
    --*work;
  }
}

void CoreState::TellDelayed(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<RemoveTicket> ticket = tombstones.TakeDelayed(now);
    if (!ticket.has_value()) break;
    TellHolders(*ticket);
    --*work;
  }
}

void CoreState::ExpireCondemned(absl::Time now, uint32_t* work) {
  while (*work > 0 && !condemned.empty() && condemned.begin()->first <= now) {
    const CondemnedExtent extent = condemned.begin()->second;
    condemned.erase(condemned.begin());
    --*work;
    NodeRecord* node = nodes.Find(extent.node);
    if (node == nullptr) continue;
    Uncharge(*node, ByteUse::kCondemned, extent.length);
    node->segments[extent.segment].allocator.Free(extent.offset, extent.length);
    ++changes;
  }
}

void CoreState::ExpireGrants(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<SlotIndex> slot = grants.Due(now);
    if (!slot.has_value()) break;
    // A report that fits a spare binds it, or ends it: of one that is left nothing is known.
    if (IsSpare(*slot) || !CommitSealed(*slot, grants.At(*slot).min_replicas, now)) {
      Erase(*slot, DeathCause::kExpired, now);
    }
    --*work;
  }
}

void CoreState::ExpirePartials(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<PartialTable::Id> id = partials.Due(now);
    if (!id.has_value()) break;
    GiveUpPartial(*id);
    --*work;
  }
}

void CoreState::RepeatCommands(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<uint64_t> id = debts.Due(now);
    if (!id.has_value()) break;
    --*work;
    const NodeRecord* node = nodes.Find(debts.Find(*id)->node);
    if (node->is_up()) {
      Transmit(*id, now);
    } else {
      debts.Postpone(*id);
    }
  }
}

void CoreState::RetakeInventories(absl::Time now) {
  for (const NodeId id : debts.Listable()) {
    NodeRecord& node = *nodes.Find(id);
    if (!node.is_usable()) continue;  // an inventory is on its way, or comes with the node
    TakeInventoryAnew(node, now);
  }
}

void Core::ExcuseAbsences(absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  for (const auto& record : s.nodes.records()) {
    if (record == nullptr || record->state != NodeState::kAway) continue;
    record->lost_at = now + s.options.node_loss_timeout;
  }
}

void CoreState::LoseNodes(absl::Time now) {
  const uint64_t before = changes;
  for (const auto& record : nodes.records()) {
    if (record == nullptr || record->state != NodeState::kAway || now < record->lost_at) continue;
    record->state = NodeState::kLost;
    record->was_lost_full = record->held_bytes() > 0;
    ++changes;
  }
  if (changes != before) nodes.Refresh();
}

void CoreState::SweepNodes(absl::Time now, uint32_t* work) {
  for (NodeIndex index = 1; index < nodes.records().size() && *work > 0; ++index) {
    if (nodes.records()[index] == nullptr) continue;
    NodeRecord& node = nodes[index];
    const auto is_here = [index](const StoredPart& part) { return part.node == index; };
    const bool is_lost = node.state == NodeState::kLost || node.state == NodeState::kRetired;
    while (is_lost && *work > 0 && !node.parts.empty()) {
      LoseParts(node.parts.back(), is_here, now);
      --*work;
    }
    while (node.is_usable() && *work > 0 && node.unswept > 0) {
      const SlotIndex slot = node.parts[node.unswept - 1];
      // What the node does not have any more.
      const auto is_gone = [&](const StoredPart& part) {
        return is_here(part) && !HasSeen(slot, part);
      };
      const bool is_granted = objects[slot].state == ObjectState::kGranted;
      if (is_granted || !LoseParts(slot, is_gone, now)) --node.unswept;
      --*work;
    }
    FindLostParts(node, now, work);
    LoseUnproven(node, now, work);
    if (node.is_usable() && node.unswept == 0) node.seen = nullptr;
    if (node.state == NodeState::kRetired && node.parts.empty()) {
      ReleaseNode(node);
    }
  }
}

}  // namespace moonpool::master
