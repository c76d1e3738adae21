// The master's state and its rules, without anything around it: Apply(command, now) -> result and
// effects, with one method per command.
//
//   Core core(options, term, Random(seed));
//   StatusOr<std::vector<PutOutcome>> outcomes = core.StartPuts(command, clock.Now());
//   for (FreeCommand& free : core.TakeEffects().frees) Send(free);
//
// No threads, clocks, locks, I/O or randomness of its own (the Random is given): equal commands at
// equal times give equal results. Externally serialised: one call at a time. No call blocks and
// none looks at all objects: the work is O(batch), times a logarithm. `now` is a point on one
// monotonic line and never goes back.
//
// Waiting is done outside: an outcome with `wait` says that the command may fare better once
// change_count() has moved. Commands may be applied again as they are: StartPuts by its request
// id, all others by nature.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/random.h"
#include "common/types.h"
#include "master/core/commands.h"
#include "master/core/durable.h"
#include "master/core/event_log.h"
#include "master/core/node_commands.h"
#include "master/core/options.h"

namespace moonpool::master {

struct CoreState;

class Core {
 public:
  // The term must be greater than any that an earlier master of this pool has used; where that
  // cannot be known, nodes that register raise it.
  Core(CoreOptions options, Term term, Random random);
  // One that keeps durable state, and goes on from what the masters before have `left`. The term
  // is durable.
  Core(CoreOptions options, Term term, Random random, const DurableState& left);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // --- Clients. A whole call fails for what concerns all of it: NOT_FOUND/NAMESPACE_UNKNOWN,
  // INVALID_ARGUMENT/BATCH_TOO_LARGE; each key has a status of its own.

  // Creates the namespace, or checks its fingerprint; answers with the fingerprint that holds.
  // An empty one matches every one and creates nothing. NOT_FOUND/NAMESPACE_UNKNOWN,
  // FAILED_PRECONDITION/FINGERPRINT_MISMATCH, INVALID_ARGUMENT/BAD_ARGUMENT (name).
  absl::StatusOr<OpenedNamespace> OpenNamespace(absl::string_view name,
                                                absl::string_view fingerprint, absl::Time now);
  absl::StatusOr<std::vector<PutOutcome>> StartPuts(const StartPutsCommand& command,
                                                    absl::Time now);
  absl::StatusOr<std::vector<CommitOutcome>> CommitPuts(const Caller& caller,
                                                        absl::Span<const CommitPut> puts,
                                                        absl::Time now);
  // Grants that name no key, one part a replica, and short-lived: until they are committed with a
  // key, or end. As many as are wished for, or fewer; none where space is short: nothing is evicted
  // for them.
  std::vector<Grant> GrantSpares(const Caller& caller, const SpareWish& wish, absl::Time now);
  // OK also for a grant that is no more; ALREADY_EXISTS when it is committed.
  absl::StatusOr<std::vector<absl::Status>> AbortPuts(const Caller& caller,
                                                      absl::Span<const AbortPut> puts,
                                                      absl::Time now);
  absl::StatusOr<std::vector<LocateOutcome>> Locate(const LocateCommand& command, absl::Time now);
  absl::StatusOr<MatchPrefixResult> MatchPrefix(const MatchPrefixCommand& command, absl::Time now);
  // OK or the reason of the miss, as Locate. No access is counted.
  absl::StatusOr<std::vector<absl::Status>> Exists(const Caller& caller,
                                                   absl::Span<const absl::string_view> keys,
                                                   absl::Time now);
  absl::StatusOr<std::vector<RemoveOutcome>> Remove(const Caller& caller,
                                                    absl::Span<const absl::string_view> keys,
                                                    absl::Time now);
  bool IsRemoveDone(RemoveTicket ticket) const;

  // --- Nodes. All but RegisterNode are void for a session that a newer one has replaced.

  // The same name and incarnation: the node is back, its objects stay and its inventory is
  // reconciled. Another incarnation: its old replicas are lost; FAILED_PRECONDITION while the
  // other one has a live session. UNAVAILABLE/NODE_LOST: it was given up, and is let in when the
  // leases on what it held have ended. INVALID_ARGUMENT for a bad description.
  absl::StatusOr<Registration> RegisterNode(const RegisterNodeCommand& command, absl::Time now);
  void InventorySlice(NodeId node, SessionId session, absl::Span<const SealedPart> parts,
                      absl::Time now);
  // From now on the node takes grants.
  void InventoryComplete(NodeId node, SessionId session, absl::Time now);
  void SealReport(NodeId node, SessionId session, absl::Span<const SealedPart> parts,
                  absl::Time now);
  // `parts_max`: that the node can hold, where its journal cannot grow.
  void Heartbeat(NodeId node, SessionId session, absl::Time now,
                 std::optional<uint64_t> parts_max = std::nullopt);
  void CommandResult(NodeId node, SessionId session, uint64_t command_id,
                     const absl::Status& status, absl::Time now);
  // The node has found these damaged, and forgotten them.
  void PartsLost(NodeId node, SessionId session, absl::Span<const LostPart> parts, absl::Time now);
  void NodeDisconnected(NodeId node, SessionId session, absl::Time now);
  // The time in which nodes may be away begins now, also for those that are: they could not have
  // come.
  void ExcuseAbsences(absl::Time now);
  // The operator says that a node that is away will never come back: removals stop waiting for
  // it. If it does, only what is proved to be alive is taken from it. NOT_FOUND;
  // FAILED_PRECONDITION while it is up.
  // The answer is to be given when the change is durable.
  absl::StatusOr<ChangeNumber> ForgetNode(absl::string_view name, absl::Time now);
  // The node takes nothing more, and what it holds moves to others; or (`cancel`) no longer. Goes
  // on under the masters to come: the answer is to be given when the change is durable. NOT_FOUND.
  absl::StatusOr<ChangeNumber> DrainNode(absl::string_view name, bool cancel, absl::Time now);
  // Makes the term greater than one that was seen elsewhere.
  void RaiseTerm(Term seen);
  Term term() const;
  // Nothing is to be granted before the term is durable.
  ChangeNumber term_saved_by() const;
  // A removal that is done stays so when no node that it does not wait for can be met again: when
  // this change is durable.
  ChangeNumber strike_saved_by() const;

  // --- Time and effects.

  // Expires grants and leases, drops what lost nodes held, repeats commands, begins copies and ends
  // late ones, walks nodes that are drained; a bounded amount per call. True: there is more to do
  // now. Meant to be called every few milliseconds to 100 ms.
  bool Tick(absl::Time now);
  // Everything since the last call, in order.
  Effects TakeEffects();
  // The changes of durable state up to this one are durable.
  void Saved(ChangeNumber number);
  // Moves whenever space was freed, a grant was closed, a lease ended, a node joined, or one has
  // forgotten what a pending commit waits for.
  uint64_t change_count() const;

  // --- Events: each object that becomes readable, and each that is gone. Where its replicas stand
  // may change without one.

  // Off: nothing is kept, and what was kept is forgotten.
  void KeepEvents(bool is_on);
  const EventLog& events() const;
  // Adds to `stored` what is stored in the table from `from` on, as events of now; of all
  // namespaces or of one. Returns from where to go on; nullopt: that was all. A bounded amount per
  // call, so a whole walk sees no single moment: with the events since its beginning applied, in
  // their order and as often as one likes, it does.
  std::optional<uint32_t> StoredFrom(uint32_t from, std::optional<NamespaceId> only,
                                     size_t events_max, std::vector<Event>* stored) const;
  // nullopt: there is none of that name. It stays one's own when there is.
  std::optional<NamespaceId> FindNamespace(absl::string_view name) const;
  // For an id that events have.
  const std::string& NamespaceName(NamespaceId id) const;

  // --- Looking.

  // nullopt for an id that no present node has.
  std::optional<NodeAddressView> AddressOf(NodeId node) const;
  StatusResult GetStatus(absl::Time now) const;
  std::vector<NodeStatus> ListNodes(absl::Time now) const;
  absl::StatusOr<ListObjectsResult> ListObjects(const ListObjectsCommand& command,
                                                absl::Time now) const;
  absl::StatusOr<WhyResult> Why(absl::string_view name_space, absl::string_view key,
                                absl::Time now) const;

  // Looks at everything and says what does not fit together; OK when all does. For tests.
  absl::Status CheckInvariants() const;

 private:
  std::unique_ptr<CoreState> state_;
};

}  // namespace moonpool::master
