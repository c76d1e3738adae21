#include "master/core/core_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/human_duration.h"
#include "common/status_macros.h"
#include "master/core/core.h"

namespace moonpool::master {
namespace {

CoreOptions Normalized(CoreOptions options) {
  if (options.takeover_hold < absl::ZeroDuration()) options.takeover_hold = options.max_lease;
  return options;
}

}  // namespace

CoreState::CoreState(CoreOptions core_options, Term first_term, Random seeded)
    : options(Normalized(std::move(core_options))),
      random(seeded),
      term(first_term),
      own_since(first_term),
      objects(options.max_objects),
      nodes(options.max_nodes),
      namespaces(options.max_namespaces),
      leases(namespaces, options.max_leases, options.leased_fraction),
      obituaries(options.obituaries),
      debts(options.max_debts),
      // Drawn from a copy: what else is drawn does not depend on it.
      events(options.max_events, Random(random).Next()),
      placement(nodes, random, options),
      keeper(*this, options) {
  MP_CHECK(first_term.value > 0, "a term is at least 1");
  absl::StatusOr<std::unique_ptr<EvictionPolicy>> made =
      MakeEvictionPolicy(options.eviction_policy, policy_slots);
  MP_CHECK(made.ok(), "eviction policy", made.status().ToString());
  policy = *std::move(made);
}

void CoreState::Observe(absl::Time now) {
  last_now = now;
  if (started != absl::InfiniteFuture()) return;
  started = now;
  if (GuardIsOn(Guard::kTakeover)) hold_until = now + options.takeover_hold;
}

uint32_t CoreState::Centiseconds(absl::Time when) const {
  const int64_t cs = (when - started) / absl::Milliseconds(10);
  return static_cast<uint32_t>(std::clamp<int64_t>(cs, 0, std::numeric_limits<uint32_t>::max()));
}

absl::Duration CoreState::Ago(uint32_t when_cs, absl::Time now) const {
  return now - (started + int64_t{when_cs} * absl::Milliseconds(10));
}

Generation CoreState::NextGeneration() {
  if (counter == std::numeric_limits<uint32_t>::max()) {
    term.value += 1;
    counter = 0;
    term_saved_by = Save(term);
  }
  return Generation::Of(term, ++counter);
}

void CoreState::RaiseTerm(Term seen) {
  if (seen < term) return;
  term = Term{seen.value + 1};
  own_since = term;
  counter = 0;
  term_saved_by = Save(term);
}

absl::StatusOr<NamespaceId> CoreState::Admit(const Caller& caller, size_t batch) {
  if (batch > kMaxBatchKeys) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge,
                     absl::StrCat(batch, " keys in one call; at most ", kMaxBatchKeys),
                     {.hint = "split the batch"});
  }
  ASSIGN_OR_RETURN(const NamespaceId name_space, namespaces.Resolve(caller.name_space));
  const size_t touches = std::min<size_t>(caller.touched.size(), options.max_touches);
  for (const Touch& touch : caller.touched.first(touches)) {
    const ObjectSlot* object = objects.FindGeneration(touch.handle, touch.generation);
    if (object != nullptr && object->state == ObjectState::kLive &&
        object->name_space == name_space) {
      policy->OnAccess(touch.handle);
      keeper.OnRead(touch.handle);
    }
  }
  return name_space;
}

absl::Status CoreState::CheckKey(absl::string_view key) const {
  if (key.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty, "the key is empty",
                     {.hint = "name an object: 1 to 1024 bytes"});
  }
  if (key.size() > kMaxKeyBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong,
                     absl::StrCat("the key has ", key.size(), " bytes; at most ", kMaxKeyBytes),
                     {.hint = "use a hash of it as the key"});
  }
  return absl::OkStatus();
}

absl::Status CoreState::LimitReached(absl::string_view what, absl::string_view flag,
                                     uint64_t limit) const {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                   absl::StrCat("the master keeps at most ", limit, " ", what),
                   {.hint = absl::StrCat("try again later, or raise the master's ", flag),
                    .retry_after = absl::Milliseconds(100)});
}

absl::Status CoreState::MissOf(uint64_t hash, NamespaceId name_space, absl::string_view key,
                               absl::Time now) const {
  const SlotIndex slot = objects.Find(hash, name_space, key);
  if (slot == kNoSlot || objects[slot].state == ObjectState::kAbsent) {
    return AbsentBecause(hash, key, now);
  }
  if (objects[slot].state == ObjectState::kGranted) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kBeingWritten,
                     "a writer holds a grant for the key and has not committed it",
                     {.hint = "wait for the writer", .key = std::string(key)});
  }
  bool is_readable = false;
  std::string node;
  for (const Replica& replica : ReplicasOf(slot, true)) is_readable |= !replica.parts.empty();
  if (is_readable) return absl::OkStatus();
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    if (node.empty() && !nodes[part.node].is_up()) node = nodes[part.node].description.name;
  });
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNodeLost,
                   absl::StrCat("all replicas stand on nodes that are away, such as ", node),
                   {.hint = "retry: the node may return, else the key becomes a miss",
                    .key = std::string(key),
                    .node = node,
                    .retry_after = absl::Milliseconds(500)});
}

absl::Status CoreState::AbsentBecause(uint64_t key_hash, absl::string_view key,
                                      absl::Time now) const {
  const auto miss = [&](ErrorReason reason, absl::string_view message) {
    return MakeError(absl::StatusCode::kNotFound, reason, message, {.key = std::string(key)});
  };
  const std::optional<Obituary> obituary = obituaries.Find(key_hash);
  if (!obituary.has_value()) {
    std::string message = "never stored, or longer ago than the record reaches";
    if (nodes.incomplete_count() > 0) {
      absl::StrAppend(&message, "; ", nodes.incomplete_count(),
                      " nodes are still reporting what they hold");
    } else if (now - started < options.node_loss_timeout) {
      absl::StrAppend(&message, "; this master began ", HumanDuration(now - started),
                      " ago, and nodes may still be on their way");
    }
    return miss(ErrorReason::kNeverStored, message);
  }
  const std::string ago = absl::StrCat(" ", HumanDuration(Ago(obituary->when_cs, now)), " ago");
  switch (obituary->cause) {
    case DeathCause::kEvicted:
      return miss(ErrorReason::kEvicted, absl::StrCat("evicted", ago, " by ", policy->name()));
    case DeathCause::kRemoved: return miss(ErrorReason::kRemoved, absl::StrCat("removed", ago));
    case DeathCause::kNodeLost:
      return miss(ErrorReason::kNodeLost, absl::StrCat("lost with its node", ago));
    case DeathCause::kDamaged:
      return miss(ErrorReason::kChecksumMismatch,
                  absl::StrCat("its last bytes were found damaged at their node", ago));
    case DeathCause::kExpired:
      return miss(ErrorReason::kExpired,
                  absl::StrCat("its writer did not finish before the grant's deadline", ago));
    case DeathCause::kAborted:
      return miss(ErrorReason::kGrantAborted, absl::StrCat("its writer gave up", ago));
    case DeathCause::kSuperseded:
      return miss(ErrorReason::kGrantAborted,
                  absl::StrCat("replaced", ago, " by another generation found at a node"));
  }
  return miss(ErrorReason::kNeverStored, "never stored");
}

Core::Core(CoreOptions options, Term term, Random random)
    : state_(std::make_unique<CoreState>(std::move(options), term, random)) {}

Core::~Core() = default;

Term Core::term() const { return state_->term; }

void Core::RaiseTerm(Term seen) { state_->RaiseTerm(seen); }

uint64_t Core::change_count() const { return state_->changes; }

absl::StatusOr<OpenedNamespace> Core::OpenNamespace(absl::string_view name,
                                                    absl::string_view fingerprint, absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  RETURN_IF_ERROR(s.namespaces.Open(name, fingerprint).status());
  ASSIGN_OR_RETURN(const NamespaceId id, s.namespaces.Resolve(name));
  NamespaceRecord& opened = s.namespaces[id];
  s.SaveNamespace(opened);
  return OpenedNamespace{.fingerprint = opened.fingerprint, .saved_by = opened.saved_by};
}

Effects Core::TakeEffects() {
  CoreState& s = *state_;
  for (const NodeId id : s.debts.TakeHasty()) {
    const NodeRecord* node = s.nodes.Find(id);
    if (node != nullptr && node->is_up()) s.SendUnsent(*node, s.last_now);
  }
  return Effects{.frees = std::exchange(s.sent, {}),
                 .copies = s.keeper.TakeCommands(),
                 .removes_done = std::exchange(s.removes_done, {}),
                 .to_register = std::exchange(s.to_register, {}),
                 .unsaved = std::exchange(s.unsaved, {})};
}

}  // namespace moonpool::master
