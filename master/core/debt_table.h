// What nodes owe: to forget generations that are dead, and the commands that tell them so.
//
// A node may hold a dead generation without its master's knowing what is sealed there. As long as
// it has not confirmed to have forgotten it, it may bring the key back, to the next master too; so
// nothing is adopted from a node that owes it, and removals of the key wait for it (R6). A debt
// counts from the moment it is made, whether its command was sent or not.
//
// A node has at most one command that is being filled; what is filled goes with the next effects,
// or the next tick when nobody is in a hurry. Bounded: what a node owes beyond the bound is not
// listed, only the fact that there is more. Removals wait for a node of which that is true, and its
// inventory is taken anew: what it names and nobody knows is owed, and listed this time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/commands.h"

namespace moonpool::master {

// Generations in one command, so that no message grows without bound.
inline constexpr size_t kMaxFreesPerCommand = 4096;

struct Debt {
  uint64_t key_hash = 0;
  Generation generation = {};
  auto operator<=>(const Debt&) const = default;
};

enum class Haste : uint8_t { kNow, kNextTick };

// Generations that a node is to forget and has not confirmed.
struct OpenCommand {
  NodeId node = {};
  std::vector<Debt> items = {};
  uint64_t debts = 0;                         // of the items; the others are for removals only
  std::vector<RemoveTicket> awaited_by = {};  // one for each confirmation that they count
  bool was_sent = false;
  bool is_awaited = false;  // by somebody who asks again
  absl::Time not_before = absl::InfinitePast();
  absl::Time repeat_at = absl::InfiniteFuture();
};

class DebtTable {
 public:
  explicit DebtTable(uint32_t max_debts_per_node) : max_debts_(max_debts_per_node) {}

  // What is owed already stays as it is. While a lease holds the bytes the node is told later; so
  // are all others that owe the same generation.
  void Owe(NodeId node, const Debt& debt, Haste haste = Haste::kNow,
           absl::Time not_before = absl::InfinitePast());
  // As far as it is listed.
  bool IsOwed(NodeId node, const Debt& debt) const;
  // The node owes a newer generation of the key: of a live object, the claim of a copy.
  bool IsNewerOwed(NodeId node, const Debt& debt) const;
  // The newest generation of the key that any node owes; 0: none.
  Generation NewestOwed(uint64_t key_hash) const;
  // Some node owes it, or owes more than is listed. Those are marked as awaited.
  bool Await(const Debt& debt);
  // While the generation may not be freed anywhere; else in the past.
  absl::Time HeldUntil(const Debt& debt) const;
  // The removal awaits all that is owed of the key; how many confirmations these are.
  [[nodiscard]] uint32_t Attach(uint64_t key_hash, RemoveTicket ticket);
  // The node is to forget it for the removal. True: that awaits one confirmation more; false: a
  // removal awaits it already, this one or one that this one follows.
  [[nodiscard]] bool Free(NodeId node, const Debt& debt, RemoveTicket ticket,
                          absl::Time not_before = absl::InfinitePast());

  // Nodes with something that is to be sent at once; they are named once.
  std::vector<NodeId> TakeHasty();
  // Commands that were never sent and may be now.
  std::vector<uint64_t> Unsent(NodeId node) const;
  // All commands that may be sent now, for a node that may have got none of them.
  std::vector<uint64_t> Unconfirmed(NodeId node, absl::Time now) const;
  const OpenCommand* Find(uint64_t id) const;
  // It was sent; nothing is added to it any more.
  void Sent(uint64_t id, absl::Time repeat_at);
  // Its node is away, and gets all that is unconfirmed when it is back.
  void Postpone(uint64_t id);
  // A command to be sent (again) now.
  std::optional<uint64_t> Due(absl::Time now) const;

  // The node has carried it out; the removals that awaited that. Nothing for a command that is none
  // of this node's, or was not sent.
  std::vector<RemoveTicket> Confirm(NodeId node, uint64_t id);
  // Its bytes are gone, and all of its debts with them; the removals that awaited it.
  std::vector<RemoveTicket> Drop(NodeId node);
  // The same bytes have another id now.
  void Move(NodeId from, NodeId to);
  // A removal waits for the node.
  bool IsAwaited(NodeId node) const;
  // Neither debts nor what removals ask for, listed or not.
  bool OwesNothing(NodeId node) const;
  // The node owes more than is listed.
  bool HasUnlisted(NodeId node) const { return unlisted_.contains(node); }
  // All nodes of which that is true and whose list has room again.
  std::vector<NodeId> Listable() const;
  // An inventory of the node begins, and what it names is listed.
  void StartListing(NodeId node);
  // It is complete. Unless there was more than could be listed again, everything is.
  void FinishListing(NodeId node);

  uint64_t DebtsOf(NodeId node) const;
  // Counts everything again. For tests.
  bool AddsUp() const;

 private:
  struct Account {
    uint64_t debts = 0;  // what removals ask for aside
    absl::btree_set<uint64_t> commands = {};
    absl::btree_set<uint64_t> unsent = {};  // the last one is being filled; no held ones
    uint64_t held = 0;                      // the last one that is sent later
  };
  struct Place {
    Debt debt = {};
    NodeId node = {};
    auto operator<=>(const Place&) const = default;
  };

  // Where something stands that the node is to forget.
  struct Entry {
    uint64_t command = 0;
    bool was_asked_for = false;  // by a removal
  };

  uint64_t Open(NodeId node, absl::Time not_before);
  // The command that takes the next item.
  uint64_t Filling(NodeId node, Haste haste, absl::Time not_before);
  void Schedule(uint64_t id, absl::Time when);
  OpenCommand Take(uint64_t id);

  uint32_t max_debts_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, OpenCommand> commands_;  // never iterated
  absl::btree_map<NodeId, Account> accounts_;
  absl::btree_map<Place, Entry> owed_;
  absl::btree_set<std::pair<absl::Time, uint64_t>> by_time_;
  absl::btree_set<NodeId> hasty_;
  enum class Unlisted : uint8_t { kToBeListed, kBeingListed };
  absl::btree_map<NodeId, Unlisted> unlisted_;
};

}  // namespace moonpool::master
