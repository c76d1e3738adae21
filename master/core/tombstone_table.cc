#include "master/core/tombstone_table.h"

#include <algorithm>

namespace moonpool::master {

RemoveTicket TombstoneTable::Add(Tombstone tombstone) {
  const RemoveTicket ticket{++last_ticket_};
  by_key_[KeyHash(tombstone.name_space, tombstone.key)].push_back(ticket);
  stones_.emplace(ticket, std::move(tombstone));
  return ticket;
}

RemoveTicket TombstoneTable::Covering(NamespaceId name_space, absl::string_view key,
                                      Generation generation) const {
  const auto tickets = by_key_.find(KeyHash(name_space, key));
  if (tickets == by_key_.end()) return {};
  for (auto ticket = tickets->second.rbegin(); ticket != tickets->second.rend(); ++ticket) {
    const Tombstone& stone = stones_.at(*ticket);
    if (stone.name_space == name_space && stone.key == key && generation <= stone.generation) {
      return *ticket;
    }
  }
  return {};
}

Tombstone* TombstoneTable::Find(RemoveTicket ticket) {
  const auto stone = stones_.find(ticket);
  return stone == stones_.end() ? nullptr : &stone->second;
}

void TombstoneTable::Follow(RemoveTicket earlier, RemoveTicket later) {
  stones_.at(earlier).follower = later;
  Await(later);
}

bool TombstoneTable::Confirm(RemoveTicket ticket) {
  const auto stone = stones_.find(ticket);
  if (stone == stones_.end() || --stone->second.awaited > 0) return false;
  const auto tickets = by_key_.find(KeyHash(stone->second.name_space, stone->second.key));
  tickets->second.erase(std::find(tickets->second.begin(), tickets->second.end(), ticket));
  if (tickets->second.empty()) by_key_.erase(tickets);
  stones_.erase(stone);
  return true;
}

void TombstoneTable::Delay(RemoveTicket ticket, absl::Time until, Generation generation,
                           absl::Span<const NodeId> holders) {
  Tombstone& stone = stones_.at(ticket);
  stone.holders_told_at = until;
  stone.held_generation = generation;
  stone.holders.assign(holders.begin(), holders.end());
  delayed_.emplace(until, ticket);
}

std::optional<RemoveTicket> TombstoneTable::TakeDelayed(absl::Time now) {
  if (delayed_.empty() || delayed_.begin()->first > now) return std::nullopt;
  const RemoveTicket ticket = delayed_.begin()->second;
  delayed_.erase(delayed_.begin());
  return ticket;
}

void CommandTable::Add(uint64_t id, OpenCommand command) {
  by_time_.emplace(command.repeat_at, id);
  Index(id, command.items);
  commands_.emplace(id, std::move(command));
}

void CommandTable::Append(uint64_t id, absl::Span<const FreeItem> items) {
  Index(id, items);
  std::vector<FreeItem>& all = commands_.at(id).items;
  all.insert(all.end(), items.begin(), items.end());
}

void CommandTable::Attach(uint64_t id, FreeItem item) { commands_.at(id).items.push_back(item); }

void CommandTable::Index(uint64_t id, absl::Span<const FreeItem> items) {
  for (const FreeItem& item : items) {
    if (item.ticket == RemoveTicket{}) owed_[item.key_hash].push_back(id);
  }
}

std::vector<uint64_t> CommandTable::OwedOf(uint64_t key_hash) const {
  const auto ids = owed_.find(key_hash);
  if (ids == owed_.end()) return {};
  return {ids->second.begin(), ids->second.end()};
}

const OpenCommand* CommandTable::Find(uint64_t id) const {
  const auto command = commands_.find(id);
  return command == commands_.end() ? nullptr : &command->second;
}

void CommandTable::RepeatAt(uint64_t id, absl::Time when) {
  OpenCommand& command = commands_.at(id);
  by_time_.erase({command.repeat_at, id});
  command.repeat_at = when;
  by_time_.emplace(when, id);
}

std::vector<FreeItem> CommandTable::Take(uint64_t id) {
  const auto command = commands_.find(id);
  std::vector<FreeItem> items = std::move(command->second.items);
  for (const FreeItem& item : items) {
    if (item.ticket != RemoveTicket{}) continue;
    const auto ids = owed_.find(item.key_hash);
    ids->second.erase(std::find(ids->second.begin(), ids->second.end(), id));
    if (ids->second.empty()) owed_.erase(ids);
  }
  by_time_.erase({command->second.repeat_at, id});
  commands_.erase(command);
  return items;
}

std::optional<uint64_t> CommandTable::Due(absl::Time now) const {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  return by_time_.begin()->second;
}

}  // namespace moonpool::master
