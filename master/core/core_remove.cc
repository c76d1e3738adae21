// Remove: gone for new readers at once, done when nobody can bring it back (R6).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
absl::StatusOr<std::vector<RemoveOutcome>> Core::Remove(const Caller& caller,
                                                        absl::Span<const absl::string_view> keys,
                                                        absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, keys.size()));
  std::vector<RemoveOutcome> outcomes;
  outcomes.reserve(keys.size());
  for (const absl::string_view key : keys) {
    absl::Status status = s.CheckKey(key);
    outcomes.push_back(status.ok() ? s.RemoveOne(name_space, key, now)
                                   : RemoveOutcome{.status = std::move(status)});
  }
  return outcomes;
}

bool Core::IsRemoveDone(RemoveTicket ticket) const { return !state_->tombstones.contains(ticket); }

RemoveOutcome CoreState::RemoveOne(NamespaceId name_space, absl::string_view key, absl::Time now) {
  const uint64_t hash = KeyHash(name_space, key);
  SlotIndex slot = objects.Find(hash, name_space, key);
  if (slot != kNoSlot && objects[slot].state == ObjectState::kAbsent) slot = kNoSlot;
  const bool is_here = slot != kNoSlot || partials.FirstOf(hash).has_value();
  if (!is_here) {
    // Repeated after a timeout: the first one goes on.
    const std::optional<Obituary> obituary = obituaries.Find(hash);
    const RemoveTicket going_on = tombstones.Covering(
        name_space, key, obituary.has_value() ? obituary->generation : Generation{1});
    if (going_on != RemoveTicket{}) {
      // It takes long: whom it waits for may come back under another master.
      const bool has_room = tombstones.size() < options.max_tombstones;
      if (tombstones.DurableOf(name_space, key) == RemoveTicket{} && has_room) {
        Entomb(name_space, key, going_on, /*is_stuck=*/true);
      }
      BuryAll(hash, now);
      const Tombstone* durable = tombstones.Find(tombstones.DurableOf(name_space, key));
      return {.status = absl::OkStatus(),
              .ticket = going_on,
              .saved_by = durable == nullptr ? 0 : durable->saved_by};
    }
    if (keeps_state && tombstones.size() >= options.max_tombstones) {
      return {.status = LimitReached("unconfirmed removals", "--limit-tombstones",
                                     options.max_tombstones)};
    }
    // A node that has not reported all yet may still bring it.
    if (nodes.incomplete_count() == 0) {
      SettleObituary(hash);
      absl::Status why = AbsentBecause(hash, key, now);
      BuryAll(hash, now);
      // A crash may forget the debts, and with them that the key was evicted or lost.
      const ChangeNumber saved_by = Entomb(name_space, key, RemoveTicket{}, false);
      return {.status = std::move(why), .saved_by = saved_by};
    }
  }
  if (tombstones.size() >= options.max_tombstones) {
    return {.status =
                LimitReached("unconfirmed removals", "--limit-tombstones", options.max_tombstones)};
  }
  if (is_here) ++totals.removed;
  return Bury(name_space, key, slot, now);
}

void CoreState::BuryAll(uint64_t hash, absl::Time now) {
  const Generation newest = Generation::Of(term, counter);
  Obituary dead = obituaries.Find(hash).value_or(Obituary{.key_hash = hash,
                                                          .generation = newest,
                                                          .when_cs = Centiseconds(now),
                                                          .cause = DeathCause::kRemoved});
  dead.dead_up_to = newest;
  dead.covers_removal = true;
  Remember(dead);
}

RemoveOutcome CoreState::Bury(NamespaceId name_space, absl::string_view key, SlotIndex slot,
                              absl::Time now) {
  const Generation newest = Generation::Of(term, counter);
  // Else the removal would not await the node that a copy of it is going to.
  if (slot != kNoSlot) keeper.Forget(slot);
  const RemoveTicket earlier = tombstones.Covering(name_space, key, Generation{1});
  const RemoveTicket ticket = tombstones.Add(
      Tombstone{.name_space = name_space, .key = std::string(key), .generation = newest});
  tombstones.Await(ticket);  // this function, until all holders are known
  if (earlier != RemoveTicket{}) tombstones.Follow(earlier, ticket);
  const uint64_t hash = KeyHash(name_space, key);
  if (slot == kNoSlot) {
    SettleObituary(hash);
    Remember(Obituary{.key_hash = hash,
                      .generation = newest,
                      .dead_up_to = newest,
                      .when_cs = Centiseconds(now),
                      .cause = DeathCause::kRemoved,
                      .covers_removal = true});
  }
  for (uint32_t owed = debts.Attach(hash, ticket); owed > 0; --owed) tombstones.Await(ticket);
  const bool is_stuck = HasAbsentHolder(slot, hash);
  const bool is_to_last =
      is_stuck || unmet_nodes > 0 || tombstones.DurableOf(name_space, key) != RemoveTicket{};
  const ChangeNumber saved_by = is_to_last ? Entomb(name_space, key, ticket, is_stuck) : 0;
  if (slot != kNoSlot) BuryObject(ticket, slot, now);
  while (const std::optional<PartialTable::Id> id = partials.FirstOf(hash)) {
    for (const PartialPart& part : partials.Find(*id)->parts) {
      FreeAt(part.node, {hash, id->generation}, ticket);
    }
    DropPartial(*id);
  }
  for (const auto& [name, index] : nodes.by_name()) {
    const bool is_reporting = nodes[index].is_up() && !nodes[index].inventory_complete;
    if (!is_reporting && !debts.HasUnlisted(nodes[index].id)) continue;
    nodes[index].inventory_waiters.push_back(ticket);
    tombstones.Await(ticket);
  }
  Confirm(ticket);
  const bool is_done = !tombstones.contains(ticket);
  return {.status = absl::OkStatus(),
          .ticket = is_done ? RemoveTicket{} : ticket,
          .saved_by = saved_by};
}

bool CoreState::HasAbsentHolder(SlotIndex slot, uint64_t hash) const {
  bool is_any_absent = false;
  const auto look = [&](NodeIndex node) { is_any_absent |= !nodes[node].is_up(); };
  if (slot != kNoSlot) {
    objects.ForEachPart(slot, [&](const StoredPart& part) { look(part.node); });
  }
  if (const std::optional<PartialTable::Id> id = partials.FirstOf(hash)) {
    for (const PartialPart& part : partials.Find(*id)->parts) {
      const NodeRecord* node = nodes.Find(part.node);
      is_any_absent |= node != nullptr && !node->is_up();
    }
  }
  return is_any_absent;
}

void CoreState::BuryObject(RemoveTicket ticket, SlotIndex slot, absl::Time now) {
  const Generation generation = objects[slot].generation;
  const uint64_t hash = objects.HashOf(slot);
  absl::InlinedVector<NodeId, 1> holders;
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    const NodeId id = nodes[part.node].id;
    if (std::find(holders.begin(), holders.end(), id) == holders.end()) holders.push_back(id);
  });
  if (objects[slot].is_scattered) {
    holders.clear();
    for (const auto& [name, index] : nodes.by_name()) holders.push_back(nodes[index].id);
  }
  const absl::Time held = ProtectedUntil(slot);
  const bool is_held = objects[slot].state == ObjectState::kLive && held > now;
  Erase(slot, DeathCause::kRemoved, now,
        ReleaseRule{.all_until = is_held ? held : absl::InfinitePast()});
  if (is_held) {
    tombstones.Await(ticket);
    tombstones.Delay(ticket, held, generation, holders);
    return;
  }
  for (const NodeId holder : holders) FreeAt(holder, {hash, generation}, ticket);
}

void CoreState::FreeAt(NodeId holder, const Debt& debt, RemoveTicket ticket) {
  const NodeRecord* node = nodes.Find(holder);
  if (node == nullptr || node->state == NodeState::kRetired) return;
  if (debts.Free(holder, debt, ticket, HeldUntil(debt.generation))) tombstones.Await(ticket);
}

void CoreState::SendUnsent(const NodeRecord& node, absl::Time now) {
  for (const uint64_t id : debts.Unsent(node.id)) Transmit(id, now);
}

void CoreState::Transmit(uint64_t command_id, absl::Time now) {
  const OpenCommand& command = *debts.Find(command_id);
  const NodeRecord& node = *nodes.Find(command.node);
  FreeCommand free{.node = node.id, .session = node.session, .command_id = command_id};
  free.newest = Generation::Of(term, counter);
  const Generation next{free.newest.value + 1};
  free.oldest_open =
      std::min(grants.OldestOpen().value_or(next), keeper.OldestClaim().value_or(next));
  free.generations.reserve(command.items.size());
  for (const Debt& debt : command.items) free.generations.push_back(debt.generation);
  sent.push_back(std::move(free));
  debts.Sent(command_id, now + options.command_retry);
}

void CoreState::Confirm(RemoveTicket ticket) {
  while (ticket != RemoveTicket{}) {
    const Tombstone* stone = tombstones.Find(ticket);
    if (stone == nullptr) return;
    const RemoveTicket follower = stone->follower;
    const RemoveTicket durable = stone->durable;
    std::optional<RemovalForgotten> forgotten;
    if (stone->is_durable && stone->generation != Generation{}) {
      forgotten = RemovalForgotten{namespaces[stone->name_space].name, stone->key};
    }
    if (!tombstones.Confirm(ticket)) return;
    if (forgotten.has_value()) Save(*std::move(forgotten));
    removes_done.push_back(ticket);
    ++changes;
    if (durable != RemoveTicket{}) Confirm(durable);
    ticket = follower;
  }
}

void CoreState::ConfirmAll(absl::Span<const RemoveTicket> tickets) {
  for (const RemoveTicket ticket : tickets) Confirm(ticket);
}

void CoreState::Owe(NodeIndex index, const Debt& debt, Haste haste, absl::Time not_before) {
  const NodeRecord* node = nodes.records()[index].get();
  if (node == nullptr || node->state == NodeState::kRetired) return;
  keeper.Owed(*node, debt);
  debts.Owe(node->id, debt, haste, std::max(not_before, HeldUntil(debt.generation)));
  DropPartialAt(node->id, debt);
}

void CoreState::OweAbsent(const Debt& debt, Haste haste) {
  if (nodes.usable().size() == nodes.by_name().size()) return;
  for (const auto& [name, index] : nodes.by_name()) {
    if (!nodes[index].is_usable()) Owe(index, debt, haste);
  }
}

void CoreState::TellHolders(RemoveTicket ticket) {
  const Tombstone& stone = *tombstones.Find(ticket);
  const Debt held{KeyHash(stone.name_space, stone.key), stone.held_generation};
  for (const NodeId holder : stone.holders) FreeAt(holder, held, ticket);
  Confirm(ticket);  // the lease
}

}  // namespace moonpool::master
