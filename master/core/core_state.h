// The state behind Core, and the steps that its commands are made of. Each group of methods stands
// in the .cc file that its heading names; Core's own methods stand beside them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/random.h"
#include "master/core/commands.h"
#include "master/core/debt_table.h"
#include "master/core/durable.h"
#include "master/core/event_log.h"
#include "master/core/eviction/registry.h"
#include "master/core/grant_table.h"
#include "master/core/lease_table.h"
#include "master/core/namespace_table.h"
#include "master/core/node_commands.h"
#include "master/core/node_table.h"
#include "master/core/obituary.h"
#include "master/core/object_table.h"
#include "master/core/options.h"
#include "master/core/partial_table.h"
#include "master/core/placement.h"
#include "master/core/replica_keeper.h"
#include "master/core/spare_table.h"
#include "master/core/tombstone_table.h"

namespace moonpool::master {

// Bytes that belong to nobody and may not be used before a time.
struct CondemnedExtent {
  NodeId node;
  uint16_t segment = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

// When the bytes of an object that goes may be used again.
struct ReleaseRule {
  absl::Time all_until = absl::InfinitePast();
  absl::Span<const Part> pinned = {};  // these rest until pinned_until
  absl::Time pinned_until = absl::InfinitePast();
};

using PartTest = absl::FunctionRef<bool(const StoredPart&)>;

// One StartPuts, as far as all its keys share it.
struct PutContext {
  NamespaceId name_space = 0;
  const StartPutsCommand* command = nullptr;
  LabelId writer_host = 0;
  uint32_t replicas = 1;
  uint32_t min_replicas = 1;
  absl::Time now;
};

// Where a reported part belongs.
struct ReportedPart {
  NodeIndex node = 0;
  NamespaceId name_space = 0;
  uint64_t key_hash = 0;
  const SealedPart* sealed = nullptr;
  bool is_inventory = false;
  absl::Time now;
};

// An incarnation that may bring objects which this master did not grant, and those to come.
struct RegisteredNode {
  Incarnation incarnation;
  Generation given_up_to;  // see DurableNode
  ChangeNumber saved_by = 0;
  // This master knows, or has given up, all that it held when this master began.
  bool is_met = false;
};

struct CoreState {
  CoreState(CoreOptions core_options, Term first_term, Random seeded);

  // --- core_state.cc: time, generations, errors, effects.
  void Observe(absl::Time now);
  uint32_t Centiseconds(absl::Time when) const;
  absl::Duration Ago(uint32_t when_cs, absl::Time now) const;
  Generation NextGeneration();
  void RaiseTerm(Term seen);
  absl::StatusOr<NamespaceId> Admit(const Caller& caller, size_t batch);
  absl::Status CheckKey(absl::string_view key) const;
  absl::Status MissOf(uint64_t hash, NamespaceId name_space, absl::string_view key,
                      absl::Time now) const;
  absl::Status AbsentBecause(uint64_t key_hash, absl::string_view key, absl::Time now) const;
  absl::Status LimitReached(absl::string_view what, absl::string_view flag, uint64_t limit) const;

  // --- core_durable.cc: what outlives the core.
  void Restore(const DurableState& left);
  // The change's number; 0 where nothing is kept.
  ChangeNumber Save(DurableChange change);
  // Its fingerprint, if that was not done before.
  void SaveNamespace(NamespaceRecord& record);
  // The registry knows of this incarnation.
  bool IsRegistered(const RegisterNodeCommand& node) const;
  // What the incarnation holds of this generation and older ones was given up.
  Generation GivenUpTo(const RegisterNodeCommand& node) const;
  // Into the registry, in the place of another incarnation of the name. It knows it already:
  // nothing.
  void Enlist(const RegisterNodeCommand& node, Generation given_up_to);
  // The change that has to be durable before the node is told that it is registered.
  ChangeNumber RegisteredBy(const RegisterNodeCommand& node) const;
  // Out of it, before anything stops to wait for the node.
  void Strike(const std::string& name, Incarnation incarnation);
  void CloseRegistry(absl::Time now);
  void MarkMet(const RegisterNodeCommand& node);
  // Nodes that hold nothing any more which is not known are believed again, by the masters to come
  // too.
  void BelieveNodes();
  // The removal is to be remembered until no node can bring the key back: those that this master
  // has not met, and those that owe to forget it. `caller`: a removal of the key that is not done
  // yet, or none; `is_stuck`: it waits for a node that may not come while this master lives.
  // Returns the change that makes it durable; 0: there is no such node.
  ChangeNumber Entomb(NamespaceId name_space, absl::string_view key, RemoveTicket caller,
                      bool is_stuck);
  // Some of its parts, known or waiting for others, are on a node that is not there.
  bool HasAbsentHolder(SlotIndex slot, uint64_t hash) const;
  // Durable removals wait no more for nodes when all are met.
  void ReleaseTombs(uint32_t* work);

  // --- core_objects.cc: the life of an object.
  // Names the parent (empty: none) of a granted object; false when the table is full.
  bool LinkParent(SlotIndex slot, absl::string_view parent);
  void UnlinkParent(SlotIndex slot);
  // The object owns these parts too, and they count as `use`.
  void Attach(SlotIndex slot, StoredParts parts, ByteUse use);
  void MakeLive(SlotIndex slot, absl::Time now);
  // Granted or live -> gone, with an obituary.
  void Erase(SlotIndex slot, DeathCause cause, absl::Time now, const ReleaseRule& rule = {});
  void RecordDeath(SlotIndex slot, uint64_t hash, DeathCause cause, absl::Time now);
  // As Obituaries::Add; what is forgotten with it is owed from now on.
  void Remember(const Obituary& obituary);
  // The node has some of a granted or live object that is not recorded. It owes to forget that,
  // unless it holds a recorded part, too: with that one all of the generation is forgotten.
  void Disown(SlotIndex slot, NodeIndex node);
  // What was evicted or lost may have left records at nodes, which owe to forget them from now on,
  // so that no inventory brings it back. True: it is the one that is back, and there may be more of
  // it where it was lost.
  bool SettleObituary(uint64_t hash, Generation back = {});
  // Replicas that `goes(replica number)` names leave the object, which keeps others. Returns how
  // many replicas are left; with none left nothing was done.
  template <typename Goes>
  uint32_t DropReplicas(SlotIndex slot, Goes goes);
  void UpdateEvictable(SlotIndex slot);
  void CountChild(SlotIndex parent, int live, int open);
  void Release(const StoredPart& part, ByteUse use, const ReleaseRule& rule);
  // Bytes that are allocated and nobody's go to nobody before that time.
  void Condemn(const StoredPart& part, absl::Time until);
  void Charge(NodeRecord& node, ByteUse use, uint64_t length);
  void Uncharge(NodeRecord& node, ByteUse use, uint64_t length);
  // Takes the parts out of their nodes' lists; the table must not know them any more.
  void Detach(SlotIndex slot, StoredParts parts);
  uint64_t FootprintOf(SlotIndex slot) const;
  bool LeadsTo(SlotIndex from, SlotIndex to) const;
  void RemoveIfUnused(SlotIndex slot);
  // Until when an older leader may have leased it; in the past for objects of our own.
  absl::Time HeldUntil(SlotIndex slot) const;
  // The same for a generation, whatever is known of it.
  absl::Time HeldUntil(Generation generation) const;
  // How much longer adopted objects are not evicted; zero when there are none.
  absl::Duration TakeoverHold(absl::Time now) const;
  // Until when its bytes must stay as they are: the end of that, and of its lease.
  absl::Time ProtectedUntil(SlotIndex slot) const;
  Replicas ReplicasOf(SlotIndex slot, bool only_up) const;
  void AppendReplicas(SlotIndex slot, bool only_up, Replicas& replicas) const;
  uint32_t ReplicaCount(SlotIndex slot) const;

  // --- core_space.cc: room for replicas.
  absl::Status TooFewNodes(uint32_t min_replicas, absl::Time now) const;
  absl::StatusOr<PlacedReplicas> PlaceReplicas(const PutContext& put, uint64_t size_bytes);
  std::optional<PlacedReplica> PlaceOne(const PlacementRequest& request, absl::Time now);
  std::optional<PlacedReplica> EvictFor(const PlacementRequest& request, absl::Time now);
  // Bytes that the replica could have if everything went that is not held; an upper bound.
  uint64_t ReclaimableFor(const PlacementRequest& request) const;
  struct Evicted {
    uint64_t bytes = 0;      // 0: nothing may be evicted
    StoredParts parts = {};  // of the object that went, on nodes that take grants
  };
  // Not the `spare`: nothing when that would be next.
  Evicted EvictOne(absl::Time now, SlotIndex spare = kNoSlot);
  // The largest free range on any of the nodes where these were.
  uint64_t LargestHoleAt(const StoredParts& parts) const;
  bool ParkIfUseless(SlotIndex slot);
  void Unpark(NodeRecord& node);
  absl::Status NoSpace(uint64_t need_bytes, absl::Time now) const;

  // --- core_put.cc
  // Fills an empty outcome where it lies, as LocateOne.
  void StartPut(const PutContext& put, uint64_t hash, const PutKey& key, PutOutcome& outcome);
  // What a put finds under its key, known losses aside.
  SlotIndex FindSettled(uint64_t hash, NamespaceId name_space, absl::string_view key,
                        absl::Time now);
  void Taken(const PutContext& put, const PutKey& key, SlotIndex slot, PutOutcome& outcome);
  // ALREADY_EXISTS (and an access), or ABORTED/BEING_WRITTEN.
  absl::Status TakenBy(SlotIndex slot, absl::Time now);
  absl::Status CheckPut(const PutKey& key, uint32_t min_replicas) const;
  absl::Status OpenGrantFor(const PutContext& put, SlotIndex slot, const PutKey& key);
  void AttachGranted(SlotIndex slot, const PlacedReplicas& placed);
  // Fills an empty grant.
  void TellGrant(SlotIndex slot, absl::Time now, Grant& grant) const;

  // --- core_spare.cc
  // A key that was written under a spare grant.
  struct SpareKey {
    NamespaceId name_space = 0;
    absl::string_view key = {};
    absl::string_view parent = {};
  };
  struct Bound {
    absl::Status status = {};
    SlotIndex slot = kNoSlot;  // OK: granted
    Generation existing_generation = {};
  };
  bool HasRoomForSpare(uint64_t bytes_more) const;
  // kNoSlot: there is no room for one.
  SlotIndex OpenSpare(const PutContext& put, uint64_t size_bytes);
  // The spare becomes the grant of the key, if that could have one now and is told so by nothing
  // newer; else the spare is no more.
  Bound BindSpare(SlotIndex spare, const SpareKey& key, absl::Time now);
  Bound TryToBind(SlotIndex spare, const SpareKey& key, absl::Time now);
  // A node has a part that was written under a spare, if it was.
  void BindReported(const ReportedPart& part);
  // The newest generation that was known of the key, or may have been: what is not newer may be
  // taken for dead, by this master or the next one.
  Generation NewestKnown(const SpareKey& key, uint64_t hash);
  // All that `from` is granted.
  void MoveGrant(SlotIndex from, SlotIndex to);
  // Its nodes are told to forget what was written under it, when the key is known.
  void EndSpare(SlotIndex spare, std::optional<uint64_t> key_hash, absl::Time now,
                const ReleaseRule& rule = {});
  bool IsSpare(SlotIndex slot) const { return objects[slot].name_space == kSpareNamespace; }

  // --- core_commit.cc
  CommitOutcome CommitOne(const Caller& caller, NamespaceId name_space, const CommitPut& put,
                          absl::Time now);
  CommitOutcome CommitSpare(const Caller& caller, const SpareKey& key, const CommitPut& put,
                            absl::Time now);
  CommitOutcome Refused(const SpareKey& key, Generation generation, const Bound& bound);
  // Of a generation that is no grant any more.
  CommitOutcome Late(const SpareKey& key, Generation generation, absl::Time now);
  absl::Status AbortOne(const Caller& caller, NamespaceId name_space, const AbortPut& put,
                        absl::Time now);
  // Before each put of a batch in turn: what several need of memory comes side by side.
  void FetchGhosts(absl::Span<const CommitPut> puts, size_t next) const;
  absl::Status Commit(SlotIndex slot, absl::Span<const uint32_t> failed, absl::Time now);
  // Commits with the replicas that are sealed when those are at least `enough`.
  bool CommitSealed(SlotIndex slot, uint32_t enough, absl::Time now);

  // --- core_get.cc
  // Fills an empty outcome, where it lies: to move it takes as long as to make it.
  void LocateOne(uint64_t hash, NamespaceId name_space, absl::string_view key, absl::Duration lease,
                 absl::Time now, LocateOutcome& outcome);

  // --- core_remove.cc
  RemoveOutcome RemoveOne(NamespaceId name_space, absl::string_view key, absl::Time now);
  // What nobody finds now is not to be found later either, whoever comes and has it, or has a spare
  // grant that is out.
  void BuryAll(uint64_t hash, absl::Time now);
  RemoveOutcome Bury(NamespaceId name_space, absl::string_view key, SlotIndex slot, absl::Time now);
  void BuryObject(RemoveTicket ticket, SlotIndex slot, absl::Time now);
  // The removal awaits this holder, which is told with the next effects.
  void FreeAt(NodeId holder, const Debt& debt, RemoveTicket ticket);
  // The node is to forget a generation that is dead, now or when it is back.
  void Owe(NodeIndex node, const Debt& debt, Haste haste = Haste::kNow,
           absl::Time not_before = absl::InfinitePast());
  // So do all nodes that may have it without this master's knowing: they are away, or have not
  // reported everything.
  void OweAbsent(const Debt& debt, Haste haste = Haste::kNow);
  void SendUnsent(const NodeRecord& node, absl::Time now);
  void Transmit(uint64_t command_id, absl::Time now);
  void Confirm(RemoveTicket ticket);
  void ConfirmAll(absl::Span<const RemoveTicket> tickets);
  void TellHolders(RemoveTicket ticket);

  // --- core_node.cc
  NodeRecord* SessionOf(NodeId node, SessionId session, absl::Time now);
  absl::Status CheckRegistration(const RegisterNodeCommand& command, absl::Time now) const;
  void Reopen(NodeRecord& node, const RegisterNodeCommand& command, absl::Time now);
  void RetireNode(NodeRecord& node);
  // Its incarnation counts as lost, whether it is or not: what it brings back must be proved.
  void GiveUp(NodeRecord& node, absl::Time now);
  void ReleaseNode(NodeRecord& node);
  // Makes room for another node; false when all hold something or are in session.
  bool ReleaseOldestLost(absl::Time now);
  void CloseSession(NodeRecord& node, absl::Time now);
  // The node is to come again, and say what it has.
  void TakeInventoryAnew(NodeRecord& node, absl::Time now);
  // Does so ahead of the sweep for a live object that has nothing but lost or retired nodes; true
  // when the object is gone with that.
  bool SettleLosses(SlotIndex slot, absl::Time now);

  // --- core_inventory.cc
  void Report(const ReportedPart& part);
  void TakeUp(const ReportedPart& part);
  void ReportOfGrant(SlotIndex slot, const ReportedPart& part);
  // True when the part is none that may become readable again.
  bool IsUnwanted(SlotIndex slot, const ReportedPart& part);
  void CollectPart(const ReportedPart& part);
  // All parts of a replica are reserved: the object becomes live, or gains a replica.
  bool Adopt(const ReportedPart& part, const PartialObject& object, StoredParts parts);
  // What an older master granted had at least as many replicas as the highest number says. No more
  // is known of the wish of its writer.
  void WishAsReported(SlotIndex slot, const ReportedPart& part);
  // Numbers of replicas with several parts tell their cuts, so those are counted as well: these
  // parts, which a node brings for the first time, are one more.
  void WishAsFound(SlotIndex slot, const ReportedPart& part, const StoredParts& parts);
  // The part's node has named it since it came back.
  void NoteSeen(SlotIndex slot, const StoredPart& part);
  void NotePlace(const StoredPart& part);
  bool HasSeen(SlotIndex slot, const StoredPart& part) const;
  // Under the number that the parts name, if no other replica has it. False: the object has as many
  // replicas as there may be.
  bool AddReplica(SlotIndex slot, StoredParts parts);
  // What the node holds of it is not taken: it is owed.
  void Decline(const ReportedPart& part, NodeIndex node);
  // Where the part was not taken its bytes are free, though an older leader may have leased them:
  // then they go to nobody before that has ended.
  void RestIfHeld(const StoredPart& part, Generation generation);
  void DropPartial(const PartialTable::Id& id);
  // Its missing parts are waited for no more: nodes owe to forget what they have brought of it.
  void GiveUpPartial(const PartialTable::Id& id);
  // The node owes to forget its parts: they complete nothing any more, whatever the others bring.
  void DropPartialAt(NodeId node, const Debt& debt);
  void ReleasePartial(const PartialPart& part, const ReleaseRule& rule = {});

  // --- core_lost.cc
  // Replicas with such a part are gone, and the object with its last one. False: there is none.
  bool LoseParts(SlotIndex slot, PartTest is_gone, absl::Time now,
                 DeathCause cause = DeathCause::kNodeLost);
  // Of a live object, see stand_ins.h.
  void Gather(SlotIndex slot, absl::FunctionRef<int(const StoredPart&)> badness);
  void Disentangle(SlotIndex slot);
  bool HasStandIns(SlotIndex slot) const;
  // New lost parts that no list of the node's parts names: of copies in flight, and of objects that
  // wait for other parts.
  void ForgetUnlisted(const NodeRecord& node, absl::Span<const LostPart> parts);
  void FindLostParts(NodeRecord& node, absl::Time now, uint32_t* work);
  // Parts of a grant that is committed now, on the word of its writer alone.
  void NoteUnproven(SlotIndex slot, absl::Time now);
  void LoseUnproven(NodeRecord& node, absl::Time now, uint32_t* work);

  // --- core_events.cc
  // A live object has come, or goes.
  void NoteStored(SlotIndex slot);
  void NoteGone(SlotIndex slot, DeathCause cause);
  Event EventOf(SlotIndex slot, EventKind kind) const;

  // --- core_drain.cc
  void SetDraining(NodeRecord& node, bool is_draining);

  // --- core_admin.cc
  ObjectEntry EntryOf(SlotIndex slot, absl::Time now) const;

  // --- core_check.cc
  absl::Status Check() const;

  // --- core_tick.cc. Each does at most *work steps and subtracts what it did.
  // One slice of all of these, and of the keeper's. True: there may be more to do.
  bool DoChores(absl::Time now);
  void ExpireLeases(absl::Time now, uint32_t* work);
  void TellDelayed(absl::Time now, uint32_t* work);
  void ExpireGrants(absl::Time now, uint32_t* work);
  void ExpireCondemned(absl::Time now, uint32_t* work);
  void ExpirePartials(absl::Time now, uint32_t* work);
  void RepeatCommands(absl::Time now, uint32_t* work);
  void RetakeInventories(absl::Time now);
  void LoseNodes(absl::Time now);
  void SweepNodes(absl::Time now, uint32_t* work);

  CoreOptions options;
  Random random;
  Term term;
  Term own_since;  // objects of older terms may be those of another leader
  uint32_t counter = 0;
  bool keeps_state = false;
  ChangeNumber saved_changes = 0;  // the number of the last one
  ChangeNumber durable_up_to = 0;
  ChangeNumber term_saved_by = 0;
  absl::btree_map<std::string, RegisteredNode> registry;  // empty where nothing is kept
  bool is_registry_closed = false;                        // as the masters before have left it
  bool is_registry_to_close = false;
  ChangeNumber drains_saved_by = 0;  // of the last change of one
  ChangeNumber strike_saved_by = 0;  // of the last incarnation that was taken out
  uint32_t unmet_nodes = 0;          // of the registry
  std::vector<RemoveTicket> awaiting_unmet;
  absl::Time started = absl::InfiniteFuture();  // the first command
  absl::Time last_now = absl::InfinitePast();   // of the last one
  absl::Time hold_until = absl::InfinitePast();
  size_t next_chore = 0;  // with which Tick goes on
  uint64_t changes = 0;
  uint64_t last_session = 0;

  ObjectTable objects;
  NodeTable nodes;
  NamespaceTable namespaces;
  GrantTable grants;
  SpareTable spares;
  LeaseTable leases;
  Obituaries obituaries;
  TombstoneTable tombstones;
  DebtTable debts;
  PartialTable partials;
  EventLog events;
  absl::btree_multimap<absl::Time, CondemnedExtent> condemned;
  SlotTable policy_slots;
  std::unique_ptr<EvictionPolicy> policy;
  Placement placement;
  ReplicaKeeper keeper;

  BytesByUse bytes = {};  // of all nodes
  uint64_t live_objects = 0;
  uint64_t adopted_objects = 0;  // live ones
  uint64_t live_parents = 0;     // live objects with children
  Totals totals;

  std::vector<FreeCommand> sent;  // confirmed ones, in order
  std::vector<RemoveTicket> removes_done;
  std::vector<NodeId> to_register;  // anew
  std::vector<DurableChange> unsaved;
};

template <typename Goes>
uint32_t CoreState::DropReplicas(SlotIndex slot, Goes goes) {
  StoredParts kept;
  StoredParts dropped;
  uint32_t left = 0;
  int last_kept = -1;
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    const bool is_going = goes(part.replica);
    (is_going ? dropped : kept).push_back(part);
    if (!is_going && part.replica != last_kept) {
      last_kept = part.replica;
      ++left;
    }
  });
  if (left == 0 || dropped.empty()) return left;
  const bool is_live = objects[slot].state == ObjectState::kLive;
  if (is_live && kept.size() == 1) kept[0].replica = 0;  // numbers of live replicas are free
  objects.SetParts(slot, std::move(kept));
  Detach(slot, dropped);
  const ByteUse use = is_live ? ByteUse::kLive : ByteUse::kGranted;
  for (const StoredPart& part : dropped) {
    Release(part, use, {});
    if (is_live) {
      namespaces[objects[slot].name_space].live_bytes -= ExtentAllocator::Rounded(part.length);
    }
    // Also while its inventory comes: it may have been named there before.
    if (nodes[part.node].is_up()) {
      Disown(slot, part.node);
    } else {
      objects[slot].is_scattered = true;  // what the node brings back may be welcome
    }
  }
  keeper.Weigh(slot);
  return left;
}

}  // namespace moonpool::master
