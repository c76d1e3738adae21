#include "master/core/debt_table.h"

#include <algorithm>

namespace moonpool::master {

void DebtTable::Owe(NodeId node, const Debt& debt, Haste haste, absl::Time not_before) {
  if (IsOwed(node, debt)) return;
  Account& account = accounts_[node];
  if (account.debts >= max_debts_) {
    unlisted_[node] = Unlisted::kToBeListed;
    return;
  }
  const uint64_t id = Filling(node, haste, std::max(not_before, HeldUntil(debt)));
  OpenCommand& command = commands_.at(id);
  command.items.push_back(debt);
  owed_.emplace(Place{debt, node}, Entry{.command = id});
  ++command.debts;
  ++account.debts;
}

bool DebtTable::IsOwed(NodeId node, const Debt& debt) const {
  return owed_.contains(Place{debt, node});
}

bool DebtTable::IsNewerOwed(NodeId node, const Debt& debt) const {
  const Debt newer{debt.key_hash, Generation{debt.generation.value + 1}};
  for (auto owed = owed_.lower_bound(Place{.debt = newer});
       owed != owed_.end() && owed->first.debt.key_hash == debt.key_hash; ++owed) {
    if (owed->first.node == node) return true;
  }
  return false;
}

Generation DebtTable::NewestOwed(uint64_t key_hash) const {
  const Place beyond{Debt{key_hash, Generation{UINT64_MAX}}, NodeId{UINT32_MAX}};
  auto owed = owed_.upper_bound(beyond);
  if (owed == owed_.begin()) return {};
  const Debt& last = (--owed)->first.debt;
  return last.key_hash == key_hash ? last.generation : Generation{};
}

bool DebtTable::Await(const Debt& debt) {
  bool is_owed = !unlisted_.empty();
  for (auto owed = owed_.lower_bound(Place{debt, NodeId{}});
       owed != owed_.end() && owed->first.debt == debt; ++owed) {
    commands_.at(owed->second.command).is_awaited = true;
    is_owed = true;
  }
  return is_owed;
}

uint32_t DebtTable::Attach(uint64_t key_hash, RemoveTicket ticket) {
  absl::btree_set<uint64_t> ids;
  for (auto owed = owed_.lower_bound(Place{.debt = {.key_hash = key_hash}});
       owed != owed_.end() && owed->first.debt.key_hash == key_hash; ++owed) {
    ids.insert(owed->second.command);
  }
  for (const uint64_t id : ids) {
    OpenCommand& command = commands_.at(id);
    command.awaited_by.push_back(ticket);
    if (accounts_.at(command.node).unsent.contains(id)) hasty_.insert(command.node);
  }
  return static_cast<uint32_t>(ids.size());
}

bool DebtTable::Free(NodeId node, const Debt& debt, RemoveTicket ticket, absl::Time not_before) {
  const auto known = owed_.find(Place{debt, node});
  if (known != owed_.end() && known->second.was_asked_for) return false;
  uint64_t id = 0;
  if (known != owed_.end()) {
    id = known->second.command;
    known->second.was_asked_for = true;
    if (accounts_.at(node).unsent.contains(id)) hasty_.insert(node);
  } else {
    id = Filling(node, Haste::kNow, std::max(not_before, HeldUntil(debt)));
    commands_.at(id).items.push_back(debt);
    owed_.emplace(Place{debt, node}, Entry{.command = id, .was_asked_for = true});
  }
  commands_.at(id).awaited_by.push_back(ticket);
  return true;
}

std::vector<NodeId> DebtTable::TakeHasty() {
  std::vector<NodeId> nodes(hasty_.begin(), hasty_.end());
  hasty_.clear();
  return nodes;
}

std::vector<uint64_t> DebtTable::Unsent(NodeId node) const {
  const auto account = accounts_.find(node);
  if (account == accounts_.end()) return {};
  return {account->second.unsent.begin(), account->second.unsent.end()};
}

std::vector<uint64_t> DebtTable::Unconfirmed(NodeId node, absl::Time now) const {
  std::vector<uint64_t> ids;
  const auto account = accounts_.find(node);
  if (account == accounts_.end()) return ids;
  for (const uint64_t id : account->second.commands) {
    if (commands_.at(id).not_before <= now) ids.push_back(id);
  }
  return ids;
}

const OpenCommand* DebtTable::Find(uint64_t id) const {
  const auto command = commands_.find(id);
  return command == commands_.end() ? nullptr : &command->second;
}

void DebtTable::Sent(uint64_t id, absl::Time repeat_at) {
  OpenCommand& command = commands_.at(id);
  command.was_sent = true;
  accounts_.at(command.node).unsent.erase(id);
  Schedule(id, repeat_at);
}

void DebtTable::Postpone(uint64_t id) { Schedule(id, absl::InfiniteFuture()); }

void DebtTable::Schedule(uint64_t id, absl::Time when) {
  OpenCommand& command = commands_.at(id);
  by_time_.erase({command.repeat_at, id});
  command.repeat_at = when;
  by_time_.emplace(when, id);
}

std::optional<uint64_t> DebtTable::Due(absl::Time now) const {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  return by_time_.begin()->second;
}

std::vector<RemoveTicket> DebtTable::Confirm(NodeId node, uint64_t id) {
  const OpenCommand* command = Find(id);
  if (command == nullptr || command->node != node || !command->was_sent) return {};
  return Take(id).awaited_by;
}

std::vector<RemoveTicket> DebtTable::Drop(NodeId node) {
  std::vector<RemoveTicket> awaited_by;
  unlisted_.erase(node);
  hasty_.erase(node);
  const auto account = accounts_.find(node);
  if (account == accounts_.end()) return awaited_by;
  const absl::btree_set<uint64_t> ids = account->second.commands;
  for (const uint64_t id : ids) {
    const OpenCommand command = Take(id);
    awaited_by.insert(awaited_by.end(), command.awaited_by.begin(), command.awaited_by.end());
  }
  accounts_.erase(node);
  return awaited_by;
}

void DebtTable::Move(NodeId from, NodeId to) {
  if (from == to) return;
  if (hasty_.erase(from) > 0) hasty_.insert(to);
  if (const auto unlisted = unlisted_.find(from); unlisted != unlisted_.end()) {
    unlisted_[to] = unlisted->second;
    unlisted_.erase(from);
  }
  const auto account = accounts_.find(from);
  if (account == accounts_.end()) return;
  Account moved = std::move(account->second);
  accounts_.erase(account);
  for (const uint64_t id : moved.commands) {
    OpenCommand& command = commands_.at(id);
    command.node = to;
    for (const Debt& debt : command.items) {
      const auto known = owed_.find(Place{debt, from});
      const Entry entry = known->second;
      owed_.erase(known);
      owed_.emplace(Place{debt, to}, entry);
    }
  }
  accounts_[to] = std::move(moved);
}

bool DebtTable::IsAwaited(NodeId node) const {
  const auto account = accounts_.find(node);
  if (account == accounts_.end()) return false;
  const absl::btree_set<uint64_t>& ids = account->second.commands;
  return std::any_of(ids.begin(), ids.end(),
                     [&](uint64_t id) { return !commands_.at(id).awaited_by.empty(); });
}

std::vector<NodeId> DebtTable::Listable() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, state] : unlisted_) {
    if (state == Unlisted::kToBeListed && DebtsOf(node) <= max_debts_ / 2) nodes.push_back(node);
  }
  return nodes;
}

void DebtTable::StartListing(NodeId node) {
  if (HasUnlisted(node)) unlisted_[node] = Unlisted::kBeingListed;
}

void DebtTable::FinishListing(NodeId node) {
  const auto unlisted = unlisted_.find(node);
  if (unlisted == unlisted_.end() || unlisted->second == Unlisted::kToBeListed) return;
  unlisted_.erase(unlisted);
}

bool DebtTable::OwesNothing(NodeId node) const {
  const auto account = accounts_.find(node);
  return !HasUnlisted(node) && (account == accounts_.end() || account->second.commands.empty());
}

uint64_t DebtTable::DebtsOf(NodeId node) const {
  const auto account = accounts_.find(node);
  return account == accounts_.end() ? 0 : account->second.debts;
}

bool DebtTable::AddsUp() const {
  size_t commands = 0;
  size_t items = 0;
  for (const auto& [node, account] : accounts_) {
    uint64_t found = 0;
    for (const uint64_t id : account.commands) {
      const OpenCommand* command = Find(id);
      if (command == nullptr || command->node != node) return false;
      found += command->debts;
      items += command->items.size();
      for (const Debt& debt : command->items) {
        const auto owed = owed_.find(Place{debt, node});
        if (owed == owed_.end() || owed->second.command != id) return false;
      }
    }
    for (const uint64_t id : account.unsent) {
      if (!account.commands.contains(id) || Find(id)->was_sent) return false;
    }
    if (found != account.debts || found > max_debts_) return false;
    commands += account.commands.size();
  }
  for (const auto& [when, id] : by_time_) {
    if (Find(id) == nullptr || Find(id)->repeat_at != when) return false;
  }
  return commands == commands_.size() && items == owed_.size();
}

uint64_t DebtTable::Open(NodeId node, absl::Time not_before) {
  const uint64_t id = ++last_id_;
  commands_.emplace(id, OpenCommand{.node = node, .not_before = not_before});
  accounts_[node].commands.insert(id);
  return id;
}

uint64_t DebtTable::Filling(NodeId node, Haste haste, absl::Time not_before) {
  Account& account = accounts_[node];
  if (not_before != absl::InfinitePast()) {
    const OpenCommand* held = Find(account.held);
    if (held == nullptr || held->was_sent || held->not_before != not_before ||
        held->items.size() >= kMaxFreesPerCommand) {
      account.held = Open(node, not_before);
      Schedule(account.held, not_before);
    }
    return account.held;
  }
  if (haste == Haste::kNow) hasty_.insert(node);
  if (!account.unsent.empty()) {
    const uint64_t last = *account.unsent.rbegin();
    if (commands_.at(last).items.size() < kMaxFreesPerCommand) return last;
  }
  const uint64_t id = Open(node, absl::InfinitePast());
  account.unsent.insert(id);
  return id;
}

absl::Time DebtTable::HeldUntil(const Debt& debt) const {
  absl::Time until = absl::InfinitePast();
  for (auto owed = owed_.lower_bound(Place{debt, NodeId{}});
       owed != owed_.end() && owed->first.debt.key_hash == debt.key_hash &&
       owed->first.debt.generation == debt.generation;
       ++owed) {
    until = std::max(until, commands_.at(owed->second.command).not_before);
  }
  return until;
}

OpenCommand DebtTable::Take(uint64_t id) {
  const auto found = commands_.find(id);
  OpenCommand command = std::move(found->second);
  commands_.erase(found);
  by_time_.erase({command.repeat_at, id});
  for (const Debt& debt : command.items) owed_.erase(Place{debt, command.node});
  Account& account = accounts_.at(command.node);
  account.debts -= command.debts;
  account.commands.erase(id);
  account.unsent.erase(id);
  if (account.commands.empty()) accounts_.erase(command.node);
  return command;
}

}  // namespace moonpool::master
