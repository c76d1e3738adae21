#include "client_sdk/core/put_path.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "client_sdk/core/pieces.h"
#include "client_sdk/core/put_attempt.h"
#include "client_sdk/core/spare_path.h"
#include "common/error.h"
#include "common/rpc/extent_proto.h"

namespace moonpool::client {
namespace {

using Item = PutAttempt;
using Stage = PutStage;

constexpr BackoffOptions kAttemptBackoff = {
    .initial = absl::Milliseconds(2), .max = absl::Milliseconds(500), .attempts_max = kPutAttempts};

// Enough for the requests of one put, or of a few.
constexpr size_t kArenaBlockBytes = 2048;

// It says nothing about the node: others had or have the bytes.
bool IsPassing(const absl::Status& failure) {
  const ErrorReason reason = ReasonOf(failure);
  return reason == ErrorReason::kBytesPinned || reason == ErrorReason::kStaleGeneration ||
         reason == ErrorReason::kStaleTerm;
}

class PutCall {
 public:
  PutCall(Session& session, const PutOptions& options, const CallContext& context)
      : session_(session),
        options_(options),
        context_(context),
        spares_(session, options, context) {}

  std::vector<absl::Status> Run(absl::Span<const PutItem> values);

 private:
  void Admit(const PutItem& value, absl::Status* result);
  void TakeSpare(absl::Span<const PutItem> values);
  void Start();
  void TakeStarted(Item& item, const StartPutsAnswer::Result& result, const ResponseNodes& nodes);
  absl::Status OutcomeOfPast(const Item& item, Generation existing) const;
  bool AwaitsNodes(const Item& item, const absl::Status& status);
  void TakeGrant(Item& item, const ToldGrant& grant, const ResponseNodes& nodes);
  void Write();
  void Evaluate(Item& item);
  void Commit();
  void CommitUnknown(const absl::Status& failure, absl::Span<Item* const> committing);
  void TakeCommitted(Item& item, const absl::Status& status, uint32_t handle);
  void TakeUnbound(Item& item, const absl::Status& status);
  void Abort();
  void SendAborts(const CallContext& context);
  void Stop(const absl::Status& ended);
  void Finish(Item& item, absl::Status status);

  using Items = absl::InlinedVector<Item*, 64>;
  Items At(Stage stage);
  template <typename Request>
  Request& NewRequest() {
    return *google::protobuf::Arena::CreateMessage<Request>(&arena_);
  }
  uint32_t wanted_replicas() const;
  size_t required_replicas() const;

  Session& session_;
  const PutOptions& options_;
  const CallContext& context_;
  SparePath spares_;
  std::vector<Item> items_;
  absl::flat_hash_set<absl::string_view> keys_;
  // Of requests, which have a message for each key.
  alignas(8) char arena_block_[kArenaBlockBytes];
  google::protobuf::Arena arena_{arena_block_, sizeof(arena_block_)};
  size_t unfinished_ = 0;
  absl::Time without_nodes_since_ = absl::InfiniteFuture();
};

// What the last attempt met, as a caller should see it: that a node has refused the generation says
// that the grant is no more, which is a lost race and no state of the caller's.
absl::Status OutcomeOf(const absl::Status& failure) {
  const ErrorReason reason = ReasonOf(failure);
  if (reason != ErrorReason::kStaleGeneration && reason != ErrorReason::kStaleTerm) return failure;
  return MakeError(absl::StatusCode::kAborted, ErrorReason::kGrantAborted, failure.message(),
                   {.hint = "put it again"});
}

std::vector<absl::Status> PutCall::Run(absl::Span<const PutItem> values) {
  std::vector<absl::Status> results(values.size());
  session_.counters().puts.Add(values.size());
  items_.reserve(values.size());
  keys_.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) Admit(values[i], &results[i]);
  Backoff backoff(kAttemptBackoff, session_.random(), session_.waiter());
  TakeSpare(values);
  while (unfinished_ > 0) {
    Start();
    Write();
    Commit();
    Abort();
    if (unfinished_ > 0 && !backoff.Pause(context_)) break;
  }
  const absl::Status ended = context_.Check(session_.clock());
  for (Item* item : At(Stage::kPending)) {
    // At the deadline, what stood in the way says more than that the time is over.
    Finish(*item, absl::IsCancelled(ended) ? ended : OutcomeOf(item->failure));
  }
  return results;
}

void PutCall::Admit(const PutItem& value, absl::Status* result) {
  Item& item = items_.emplace_back();
  item.value = &value;
  item.result = result;
  ++unfinished_;
  item.size_bytes = TotalBytes(value.value);
  absl::Status bad = CheckKey(value.key);
  if (bad.ok() && value.parent.size() > kMaxKeyBytes) {
    bad = Annotate(CheckKey(value.parent), "parent");
  }
  if (bad.ok() && !keys_.insert(value.key).second) {
    bad = MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kDuplicateKey,
                    "the key stands twice in the batch");
  }
  if (!bad.ok()) Finish(item, std::move(bad));
}

void PutCall::TakeSpare(absl::Span<const PutItem> values) {
  if (unfinished_ == 0) return;
  if (std::optional<SpareGrant> spare = spares_.Take(values)) {
    items_.front().Begin(*std::move(spare));
  }
}

PutCall::Items PutCall::At(Stage stage) {
  Items found;
  for (Item& item : items_) {
    if (item.stage == stage) found.push_back(&item);
  }
  return found;
}

uint32_t PutCall::wanted_replicas() const { return std::max(options_.replicas, 1u); }

size_t PutCall::required_replicas() const {
  const uint32_t wanted = wanted_replicas();
  return options_.min_replicas == 0 ? wanted : std::min(options_.min_replicas, wanted);
}

// Grants for everything that needs one.
void PutCall::Start() {
  const Items starting = At(Stage::kPending);
  if (starting.empty()) return;
  v1::StartPutsRequest& request = NewRequest<v1::StartPutsRequest>();
  request.set_request_id(session_.random().Next());
  request.set_replicas(wanted_replicas());
  request.set_min_replicas(options_.min_replicas);
  request.set_wait_for_space(options_.wait_for_space);
  request.set_wait_for_writer(options_.wait_for_writer);
  for (const Item* item : starting) {
    v1::PutKey* put = request.add_puts();
    put->set_key(item->value->key);
    put->set_size_bytes(item->size_bytes);
    put->set_parent(item->value->parent);
  }
  CallPolicy policy = session_.policy();
  policy.may_hold = options_.wait_for_space || options_.wait_for_writer;
  // A master that hears of this host chooses one of its nodes again, however sick.
  policy.names_host =
      absl::c_none_of(starting, [](const Item* item) { return item->has_failed_at_home; });
  absl::StatusOr<StartPutsAnswer> answer =
      session_.Call(&MasterStub::StartPuts, request, context_, policy);
  if (answer.ok() && answer->results.size() != starting.size()) {
    answer = absl::InternalError("the master answered with another number of keys");
  }
  if (!answer.ok()) {
    for (Item* item : starting) Finish(*item, Annotate(answer.status(), "start put"));
    return;
  }
  const ResponseNodes nodes(answer->nodes, session_.peers());
  for (size_t i = 0; i < starting.size(); ++i) {
    TakeStarted(*starting[i], answer->results[i], nodes);
  }
}

void PutCall::TakeStarted(Item& item, const StartPutsAnswer::Result& result,
                          const ResponseNodes& nodes) {
  const absl::Status& status = result.status;
  if (status.ok()) return TakeGrant(item, result.grant, nodes);
  if (absl::IsAlreadyExists(status)) spares_.Failed();
  const Generation existing = result.existing_generation;
  if (absl::IsAlreadyExists(status) && absl::c_linear_search(item.past, existing)) {
    return Finish(item, OutcomeOfPast(item, existing));
  }
  item.failure = status;
  if (AwaitsNodes(item, status)) return;
  // The writer may be an earlier attempt of ours whose abort has not arrived.
  if (absl::IsAborted(status) && !item.past.empty()) return;
  Finish(item, status);
}

// An earlier attempt of ours, committed by its seals. A master that never had its grant has taken
// what was sealed, which may be less than was asked for.
absl::Status PutCall::OutcomeOfPast(const Item& item, Generation existing) const {
  if (required_replicas() == 1 || absl::c_linear_search(item.written, existing)) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kReplicasUnmet,
                   "an earlier attempt of this put is stored, with fewer replicas than required",
                   {.hint = "the pool makes up for them; take it as stored where that is enough"});
}

// A leader that is new has no nodes, or not yet as many as are needed, and says when to come back:
// they come within a second. Those who wait for space wait for a node as long as they have time.
bool PutCall::AwaitsNodes(const Item& item, const absl::Status& status) {
  if (ReasonOf(status) != ErrorReason::kNoNodes) return false;
  if (options_.wait_for_space && absl::IsUnavailable(status)) return true;
  if (DetailOf(status)->retry_after == absl::ZeroDuration()) return false;
  if (!session_.options().wait_for_master && item.past.empty()) return false;
  const absl::Time now = session_.clock().Now();
  without_nodes_since_ = std::min(without_nodes_since_, now);
  return now < without_nodes_since_ + kNodesAwaited;
}

void PutCall::TakeGrant(Item& item, const ToldGrant& grant, const ResponseNodes& nodes) {
  without_nodes_since_ = absl::InfiniteFuture();
  item.Begin(grant);
  if (grant.replicas.size() > kMaxReplicas) {
    item.failure = absl::InternalError(
        absl::StrCat("the master granted ", grant.replicas.size(), " replicas"));
    item.is_final = true;
    item.stage = Stage::kRefused;
    return;
  }
  for (const ToldReplica& replica : grant.replicas) {
    absl::StatusOr<ReplicaPlaces> places = nodes.Resolve(replica, item.size_bytes);
    if (!places.ok()) {
      item.failure = std::move(places).status();
      item.is_final = true;
      break;
    }
    item.replicas.push_back(*std::move(places));
  }
  if (item.failure.ok() && item.replicas.size() < required_replicas()) {
    item.failure = MakeError(absl::StatusCode::kUnavailable, ErrorReason::kReplicasUnmet,
                             absl::StrCat("the master granted ", item.replicas.size(),
                                          " replicas of ", required_replicas()));
  }
  if (!item.failure.ok()) item.stage = Stage::kRefused;
}

// All parts of all replicas of all granted items.
void PutCall::Write() {
  const Items writing = At(Stage::kGranted);
  if (writing.empty()) return;
  BatchIo io(session_.waiter(), session_.options().io);
  for (Item* item : writing) {
    item->PrepareWrites(session_.part_namespace(), wanted_replicas());
    for (size_t replica = 0; replica < item->ops.size(); ++replica) {
      for (size_t part = 0; part < item->ops[replica].size(); ++part) {
        io.Add(item->replicas[replica].parts[part].peer, &item->ops[replica][part],
               /*has_alternative=*/true);
      }
    }
  }
  const bool is_spare = writing.front()->is_spare;
  const absl::Status ended = io.Run(is_spare ? spares_.WritingContext() : context_);
  for (Item* item : writing) Evaluate(*item);
  if (!ended.ok()) Stop(ended);
}

// A replica is good when all its parts are sealed.
void PutCall::Evaluate(Item& item) {
  size_t good = 0;
  for (size_t replica = 0; replica < item.ops.size(); ++replica) {
    bool is_good = true;
    for (size_t part = 0; part < item.ops[replica].size(); ++part) {
      const absl::Status& status = item.ops[replica][part].status;
      if (status.ok()) continue;
      is_good = false;
      item.failure = status;
      item.has_failed_at_home |=
          item.replicas[replica].parts[part].peer->is_same_host() && !IsPassing(status);
      item.is_final = absl::IsInvalidArgument(status);
      if (ReasonOf(status) == ErrorReason::kBytesPinned) {
        const ToldPart& told = item.grant.replicas[replica][part];
        v1::Part& pinned = item.pinned.emplace_back();
        pinned.set_node_id(told.node_id);
        ExtentToProto(told.extent, pinned.mutable_extent());
      }
    }
    if (is_good) {
      ++good;
    } else {
      item.failed_replicas.push_back(static_cast<uint32_t>(replica));
    }
  }
  if (good >= required_replicas()) {
    item.stage = Stage::kWritten;
    item.written.push_back(item.grant.generation);
    return;
  }
  item.stage = Stage::kRefused;
  if (good > 0) {
    item.failure = MakeError(absl::StatusCode::kUnavailable, ErrorReason::kReplicasUnmet,
                             absl::StrCat("wrote ", good, " replicas of ", required_replicas(),
                                          ": ", item.failure.message()));
  }
}

void PutCall::Commit() {
  const Items committing = At(Stage::kWritten);
  if (committing.empty()) return;
  v1::CommitPutsRequest& request = NewRequest<v1::CommitPutsRequest>();
  for (const Item* item : committing) {
    v1::CommitPut* put = request.add_puts();
    put->set_generation(item->grant.generation.value);
    put->set_handle(item->grant.handle);
    for (const uint32_t failed : item->failed_replicas) put->add_failed_replicas(failed);
    if (!item->is_spare) continue;
    put->set_key(item->value->key);
    put->set_parent(item->value->parent);
  }
  spares_.Wish(request);
  const absl::Time sent_at = session_.clock().Now();
  absl::StatusOr<CommitPutsAnswer> answer =
      session_.Call(&MasterStub::CommitPuts, request, context_, kPatientPolicy);
  if (answer.ok() && answer->results.size() != committing.size()) {
    answer = absl::InternalError("the master answered with another number of keys");
  }
  if (!answer.ok()) return CommitUnknown(answer.status(), committing);
  spares_.Add(*answer, sent_at);
  size_t bound = 0;
  for (size_t i = 0; i < committing.size(); ++i) {
    Item& item = *committing[i];
    uint32_t handle = item.grant.handle;
    if (item.is_spare && bound < answer->bound.size()) handle = answer->bound[bound++].handle;
    TakeCommitted(item, answer->results[i], handle);
  }
}

// Sealed, and perhaps committed: the seals will tell the master, or did.
void PutCall::CommitUnknown(const absl::Status& failure, absl::Span<Item* const> committing) {
  absl::Status status = failure;
  if (absl::IsUnavailable(failure)) {
    status =
        MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline, failure.message());
  }
  status = Annotate(status, "commit: written, and may have been stored");
  for (Item* item : committing) Finish(*item, status);
}

void PutCall::TakeCommitted(Item& item, const absl::Status& status, uint32_t handle) {
  if (item.is_spare && !status.ok()) return TakeUnbound(item, status);
  if (absl::IsAborted(status)) {
    item.failure = status;
    item.stage = Stage::kPending;
    return;
  }
  if (!status.ok()) return Finish(item, Annotate(status, "commit"));
  Replicas good;
  for (uint32_t replica = 0; replica < item.replicas.size(); ++replica) {
    if (std::find(item.failed_replicas.begin(), item.failed_replicas.end(), replica) ==
        item.failed_replicas.end()) {
      good.push_back(std::move(item.replicas[replica]));
    }
  }
  session_.locations().Insert(item.value->key,
                              std::make_shared<const Location>(item.grant.generation, handle,
                                                               item.size_bytes, std::move(good)));
  session_.counters().put_bytes.Add(item.size_bytes);
  Finish(item, absl::OkStatus());
}

// What StartPuts would have said, said by the commit. What it would have waited for, it is asked
// for; and for a grant, where this one is no more.
void PutCall::TakeUnbound(Item& item, const absl::Status& status) {
  spares_.Failed();
  const bool waits = options_.wait_for_space && absl::IsResourceExhausted(status);
  const bool is_lost = absl::IsAborted(status) && ReasonOf(status) != ErrorReason::kBeingWritten;
  if (!waits && !is_lost) return Finish(item, status);
  item.failure = status;
  item.stage = Stage::kPending;
}

// Grants that came to nothing are given back before the next attempt asks for new ones.
void PutCall::Abort() {
  const Items refused = At(Stage::kRefused);
  if (refused.empty()) return;
  SendAborts(context_);
  for (Item* item : refused) {
    if (item->is_final) {
      Finish(*item, item->failure);
    } else {
      item->stage = Stage::kPending;
    }
  }
}

void PutCall::SendAborts(const CallContext& context) {
  v1::AbortPutsRequest request;
  for (const Item* item : At(Stage::kRefused)) {
    v1::AbortPut* put = request.add_puts();
    put->set_generation(item->grant.generation.value);
    put->set_handle(item->grant.handle);
    for (const v1::Part& part : item->pinned) *put->add_pinned() = part;
    if (!item->is_spare) continue;
    put->set_key(item->value->key);
    spares_.Failed();
  }
  spares_.GiveBack(request);
  // Whatever the answer: the grant's deadline does the same, later.
  session_.Call(&MasterStub::AbortPuts, request, context, kBriefPolicy).IgnoreError();
}

// The caller's time is over while bytes are on their way.
void PutCall::Stop(const absl::Status& ended) {
  for (Item* item : At(Stage::kWritten)) item->stage = Stage::kRefused;
  const Items refused = At(Stage::kRefused);
  const bool is_spare = !refused.empty() && refused.front()->is_spare;
  if (absl::IsCancelled(ended) || is_spare) {
    const Clock& clock = session_.clock();
    SendAborts(
        {.deadline = std::min(context_.deadline, clock.Now() + kCancelAbortTimeout), .cancel = {}});
  }
  for (Item* item : refused) {
    Finish(*item, Annotate(ended, "while writing; may have been stored"));
  }
}

void PutCall::Finish(Item& item, absl::Status status) {
  *item.result = AnnotateKey(status, item.value->key);
  item.stage = Stage::kDone;
  --unfinished_;
}

}  // namespace

std::vector<absl::Status> PutMany(Session& session, absl::Span<const PutItem> items,
                                  const PutOptions& options, const CallContext& context) {
  if (absl::Status bad = session.CheckCall(items.size(), context); !bad.ok()) {
    return std::vector<absl::Status>(items.size(), bad);
  }
  return PutCall(session, options, context).Run(items);
}

}  // namespace moonpool::client
