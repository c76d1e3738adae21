// Remove: gone for new readers at once, done when nobody can bring it back (R6).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

// Generations in one command, so that no message grows without bound.
constexpr size_t kMaxFreesPerCommand = 4096;

}  // namespace

absl::StatusOr<std::vector<RemoveOutcome>> Core::Remove(const Caller& caller,
                                                        absl::Span<const absl::string_view> keys,
                                                        absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  s.FlushOwed(now);
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.Admit(caller, keys.size()));
  std::vector<RemoveOutcome> outcomes;
  outcomes.reserve(keys.size());
  for (const absl::string_view key : keys) {
    absl::Status status = s.CheckKey(key);
    outcomes.push_back(status.ok() ? s.RemoveOne(name_space, key, now)
                                   : RemoveOutcome{.status = std::move(status)});
  }
  s.FlushFrees(now);
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
    if (going_on != RemoveTicket{}) return {.status = absl::OkStatus(), .ticket = going_on};
    // A node that has not reported all yet may still bring it.
    if (nodes.incomplete_count() == 0) {
      SettleObituary(hash);
      if (std::optional<Obituary> dead = obituaries.Find(hash)) {
        // What nobody finds now is not to be found later either.
        dead->dead_up_to = Generation::Of(term, counter);
        dead->covers_removal = true;
        Remember(*dead);
      }
      return {.status = AbsentBecause(hash, key, now)};
    }
  }
  if (tombstones.size() >= options.max_tombstones) {
    return {.status = LimitReached("unconfirmed removals", options.max_tombstones)};
  }
  const RemoveTicket ticket = Bury(name_space, key, slot, now);
  if (is_here) ++totals.removed;
  return {.status = absl::OkStatus(), .ticket = ticket};
}

RemoveTicket CoreState::Bury(NamespaceId name_space, absl::string_view key, SlotIndex slot,
                             absl::Time now) {
  const Generation newest = Generation::Of(term, counter);
  const RemoveTicket earlier = tombstones.Covering(name_space, key, Generation{1});
  const RemoveTicket ticket = tombstones.Add(
      Tombstone{.name_space = name_space, .key = std::string(key), .generation = newest});
  tombstones.Await(ticket);  // this function, until all holders are known
  if (earlier != RemoveTicket{}) tombstones.Follow(earlier, ticket);
  const uint64_t hash = KeyHash(name_space, key);
  if (slot != kNoSlot) {
    BuryObject(ticket, slot, now);
  } else {
    SettleObituary(hash);
    Remember(Obituary{.key_hash = hash,
                      .generation = newest,
                      .dead_up_to = newest,
                      .when_cs = Centiseconds(now),
                      .cause = DeathCause::kRemoved,
                      .covers_removal = true});
  }
  FlushOwed(now);
  for (const uint64_t command : commands.OwedOf(hash)) {
    tombstones.Await(ticket);
    commands.Attach(command, FreeItem{ticket, commands.Find(command)->items.front().generation});
  }
  while (const std::optional<PartialTable::Id> id = partials.FirstOf(hash)) {
    for (const PartialPart& part : partials.Find(*id)->parts) {
      GatherFree(part.node, FreeItem{ticket, id->generation});
    }
    DropPartial(*id);
  }
  for (const auto& [name, index] : nodes.by_name()) {
    const bool is_reporting = nodes[index].is_up() && !nodes[index].inventory_complete;
    if (!is_reporting && !nodes[index].owes_more) continue;
    nodes[index].inventory_waiters.push_back(ticket);
    tombstones.Await(ticket);
  }
  return tombstones.Confirm(ticket) ? RemoveTicket{} : ticket;
}

void CoreState::BuryObject(RemoveTicket ticket, SlotIndex slot, absl::Time now) {
  const Generation generation = objects[slot].generation;
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
  for (const NodeId holder : holders) GatherFree(holder, FreeItem{ticket, generation});
}

void CoreState::GatherFree(NodeId holder, FreeItem item) {
  const NodeRecord* node = nodes.Find(holder);
  // With a retired incarnation its bytes are gone.
  if (node == nullptr || node->state == NodeState::kRetired) return;
  tombstones.Await(item.ticket);
  gathered_frees[node->index].push_back(item);
}

void CoreState::FlushFrees(absl::Time now) {
  for (auto& [index, items] : std::exchange(gathered_frees, {})) {
    NodeRecord& node = nodes[index];
    SendFree(node, std::move(items), now);
  }
}

void CoreState::SendFree(NodeRecord& node, std::vector<FreeItem> items, absl::Time now) {
  node.owed += items.size();
  if (!node.is_up() && !node.commands.empty()) {
    const uint64_t last = *node.commands.rbegin();
    if (commands.Find(last)->items.size() + items.size() <= kMaxFreesPerCommand) {
      return commands.Append(last, items);
    }
  }
  const uint64_t id = commands.NextId();
  node.commands.insert(id);
  commands.Add(id, OpenCommand{.node = node.id, .items = std::move(items)});
  if (node.is_up()) Transmit(id, now);
}

void CoreState::Transmit(uint64_t command_id, absl::Time now) {
  const OpenCommand& command = *commands.Find(command_id);
  const NodeRecord& node = *nodes.Find(command.node);
  FreeCommand free{.node = node.id, .session = node.session, .command_id = command_id};
  free.newest = Generation::Of(term, counter);
  free.oldest_open = grants.OldestOpen().value_or(Generation{free.newest.value + 1});
  free.generations.reserve(command.items.size());
  for (const FreeItem& item : command.items) free.generations.push_back(item.generation);
  sent.push_back(std::move(free));
  commands.RepeatAt(command_id, now + options.command_retry);
}

void CoreState::Confirm(RemoveTicket ticket) {
  while (ticket != RemoveTicket{}) {
    const Tombstone* stone = tombstones.Find(ticket);
    const RemoveTicket follower = stone == nullptr ? RemoveTicket{} : stone->follower;
    if (!tombstones.Confirm(ticket)) return;
    removes_done.push_back(ticket);
    ++changes;
    ticket = follower;
  }
}

void CoreState::ConfirmCommand(NodeRecord& node, uint64_t command_id) {
  if (node.commands.erase(command_id) == 0) return;
  const std::vector<FreeItem> items = commands.Take(command_id);
  node.owed -= std::min<uint64_t>(node.owed, items.size());
  for (const FreeItem& item : items) Confirm(item.ticket);
}

void CoreState::Owe(NodeIndex index, uint64_t key_hash, Generation generation) {
  if (nodes.records()[index] == nullptr) return;
  NodeRecord& node = nodes[index];
  // With a retired incarnation its bytes are gone.
  if (node.state == NodeState::kRetired || IsOwed(node.id, key_hash, generation)) return;
  std::vector<FreeItem>& waiting = owed[index];
  if (node.owed + waiting.size() >= options.max_owed_frees) {
    node.owes_more = true;
    return;
  }
  waiting.push_back(FreeItem{{}, generation, key_hash});
  owes_now = true;
}

void CoreState::OweAbsent(uint64_t key_hash, Generation generation) {
  if (nodes.usable().size() == nodes.by_name().size()) return;
  for (const auto& [name, index] : nodes.by_name()) {
    if (!nodes[index].is_usable()) Owe(index, key_hash, generation);
  }
}

bool CoreState::IsOwed(NodeId node, uint64_t key_hash, Generation generation) const {
  for (const uint64_t id : commands.OwedOf(key_hash)) {
    const OpenCommand& command = *commands.Find(id);
    if (command.node != node) continue;
    for (const FreeItem& item : command.items) {
      if (item.generation == generation) return true;
    }
  }
  return false;
}

void CoreState::FlushOwed(absl::Time now) {
  owes_now = false;
  for (auto& [index, items] : std::exchange(owed, {})) {
    if (nodes.records()[index] == nullptr) continue;
    NodeRecord& node = nodes[index];
    if (node.state == NodeState::kRetired) continue;
    for (size_t i = 0; i < items.size(); i += kMaxFreesPerCommand) {
      const auto slice = absl::MakeConstSpan(items).subspan(i, kMaxFreesPerCommand);
      SendFree(node, {slice.begin(), slice.end()}, now);
    }
  }
}

void CoreState::TellHolders(RemoveTicket ticket, absl::Time now) {
  const Tombstone& stone = *tombstones.Find(ticket);
  for (const NodeId holder : stone.holders) {
    GatherFree(holder, FreeItem{ticket, stone.held_generation});
  }
  Confirm(ticket);  // the lease
  FlushFrees(now);
}

}  // namespace moonpool::master
