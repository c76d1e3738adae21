#include "master/core/tombstone_table.h"

#include <algorithm>

namespace moonpool::master {

RemoveTicket TombstoneTable::Add(Tombstone tombstone) {
  const RemoveTicket ticket{++last_ticket_};
  IndexOf(tombstone)[KeyHash(tombstone.name_space, tombstone.key)].push_back(ticket);
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

RemoveTicket TombstoneTable::FirstCovering(NamespaceId name_space, absl::string_view key,
                                           Generation generation) const {
  const auto tickets = by_key_.find(KeyHash(name_space, key));
  if (tickets == by_key_.end()) return {};
  for (const RemoveTicket ticket : tickets->second) {
    const Tombstone& stone = stones_.at(ticket);
    if (stone.name_space == name_space && stone.key == key && generation <= stone.generation) {
      return ticket;
    }
  }
  return {};
}

RemoveTicket TombstoneTable::DurableOf(NamespaceId name_space, absl::string_view key) const {
  const auto tickets = durable_by_key_.find(KeyHash(name_space, key));
  if (tickets == durable_by_key_.end()) return {};
  for (const RemoveTicket ticket : tickets->second) {
    const Tombstone& stone = stones_.at(ticket);
    if (stone.name_space == name_space && stone.key == key) return ticket;
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
  ByKey& by_key = IndexOf(stone->second);
  const auto tickets = by_key.find(KeyHash(stone->second.name_space, stone->second.key));
  tickets->second.erase(std::find(tickets->second.begin(), tickets->second.end(), ticket));
  if (tickets->second.empty()) by_key.erase(tickets);
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

}  // namespace moonpool::master
