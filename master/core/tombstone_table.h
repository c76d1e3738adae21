// Removals that are not confirmed yet, and the commands whose answers will confirm them.
//
// An explicit remove must not come back (R6): until every holder has said that it forgot the
// object, the tombstone keeps (key, generation and older) from being adopted again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "master/core/node_commands.h"
#include "master/core/object_table.h"

namespace moonpool::master {

// What a node is to forget, for one removal; or, without a ticket, because it is dead anyhow. The
// node owes that: as long as it has not confirmed it may bring the key back, to the next master
// too, so a removal of the key waits for it.
struct FreeItem {
  RemoveTicket ticket;
  Generation generation;
  uint64_t key_hash = 0;  // of what is owed
};

struct Tombstone {
  NamespaceId name_space = 0;
  std::string key;
  Generation generation;       // this and every older one is dead
  uint32_t awaited = 0;        // confirmations
  RemoveTicket follower = {};  // a later removal of the key, which is not done before this one
  // While a lease lasts the holders must keep the bytes; then they are told to forget them.
  absl::Time holders_told_at = absl::InfinitePast();
  Generation held_generation = {};
  absl::InlinedVector<NodeId, 1> holders = {};
};

class TombstoneTable {
 public:
  // Awaits nothing yet.
  RemoveTicket Add(Tombstone tombstone);
  // The newest removal of the key that covers this generation; 0 when there is none.
  RemoveTicket Covering(NamespaceId name_space, absl::string_view key, Generation generation) const;
  Tombstone* Find(RemoveTicket ticket);
  bool contains(RemoveTicket ticket) const { return stones_.contains(ticket); }
  void Await(RemoveTicket ticket) { ++stones_.at(ticket).awaited; }
  // The later of two removals of one key awaits the earlier, too: "removed" is a word about the
  // key, and what the earlier one took may still be read through known locations.
  void Follow(RemoveTicket earlier, RemoveTicket later);
  // One confirmation less to wait for; true when it was the last, and the tombstone is gone.
  bool Confirm(RemoveTicket ticket);
  // Has the holders told later.
  void Delay(RemoveTicket ticket, absl::Time until, Generation generation,
             absl::Span<const NodeId> holders);
  // A tombstone whose holders are to be told now; it is no longer delayed.
  std::optional<RemoveTicket> TakeDelayed(absl::Time now);

  size_t size() const { return stones_.size(); }

 private:
  uint64_t last_ticket_ = 0;
  absl::flat_hash_map<RemoveTicket, Tombstone> stones_;  // never iterated
  // By hash of the key, oldest first.
  absl::flat_hash_map<uint64_t, absl::InlinedVector<RemoveTicket, 1>> by_key_;
  absl::btree_set<std::pair<absl::Time, RemoveTicket>> delayed_;
};

// Free commands that a node has not confirmed.
struct OpenCommand {
  NodeId node;
  std::vector<FreeItem> items;
  absl::Time repeat_at = absl::InfiniteFuture();
};

class CommandTable {
 public:
  uint64_t NextId() { return ++last_id_; }
  void Add(uint64_t id, OpenCommand command);
  // More for a command that is not on its way.
  void Append(uint64_t id, absl::Span<const FreeItem> items);
  // From now on the removal waits for the command, too; its generation is in it already.
  void Attach(uint64_t id, FreeItem item);
  // Commands with something that is owed of the key.
  std::vector<uint64_t> OwedOf(uint64_t key_hash) const;
  const OpenCommand* Find(uint64_t id) const;
  // Infinite: not before the node is back.
  void RepeatAt(uint64_t id, absl::Time when);
  // Removes the command; its items.
  std::vector<FreeItem> Take(uint64_t id);
  // A command to be sent again now.
  std::optional<uint64_t> Due(absl::Time now) const;

 private:
  void Index(uint64_t id, absl::Span<const FreeItem> items);

  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, OpenCommand> commands_;                   // never iterated
  absl::flat_hash_map<uint64_t, absl::InlinedVector<uint64_t, 1>> owed_;  // ids by hash of the key
  absl::btree_set<std::pair<absl::Time, uint64_t>> by_time_;
};

}  // namespace moonpool::master
