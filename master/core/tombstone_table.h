// Removals that are not confirmed yet.
//
// An explicit remove must not come back (R6): until every holder has said that it forgot the
// object, the tombstone keeps (key, generation and older) from being adopted again. Durable ones
// are for holders that the caller does not wait for; there is one per key at most, and it outlives
// the others of the key.
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
#include "master/core/durable.h"
#include "master/core/node_commands.h"
#include "master/core/object_table.h"

namespace moonpool::master {

struct Tombstone {
  NamespaceId name_space = 0;
  std::string key;
  Generation generation;       // this and every older one is dead
  uint32_t awaited = 0;        // confirmations
  RemoveTicket follower = {};  // a later removal of the key, which is not done before this one
  RemoveTicket durable = {};   // the durable one of the key, which awaits this one
  bool is_durable = false;
  ChangeNumber saved_by = 0;  // of a durable one
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
  // The oldest one, which all later ones await: what turns up of the generation concerns them all.
  RemoveTicket FirstCovering(NamespaceId name_space, absl::string_view key,
                             Generation generation) const;
  // The durable one of the key; 0 when there is none.
  RemoveTicket DurableOf(NamespaceId name_space, absl::string_view key) const;
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
  using ByKey = absl::flat_hash_map<uint64_t, absl::InlinedVector<RemoveTicket, 1>>;
  ByKey& IndexOf(const Tombstone& stone) { return stone.is_durable ? durable_by_key_ : by_key_; }

  // By hash of the key, oldest first.
  ByKey by_key_;
  ByKey durable_by_key_;
  absl::btree_set<std::pair<absl::Time, RemoveTicket>> delayed_;
};

}  // namespace moonpool::master
