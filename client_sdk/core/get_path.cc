#include "client_sdk/core/get_path.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client_sdk/core/pieces.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/status_macros.h"

namespace moonpool::client {
namespace {

using transport::ReadOp;

// Between rounds after the second: a stale hint is put right at once, a node that has just died
// takes a moment to be noticed.
constexpr BackoffOptions kRoundBackoff = {
    .initial = absl::Milliseconds(2), .max = absl::Milliseconds(50), .attempts_max = kGetRounds};

// What a failed read says about its replica.
enum class Verdict { kUnreachable, kCorrupted, kStale, kError };

Verdict VerdictOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable: return Verdict::kUnreachable;
    case absl::StatusCode::kDataLoss: return Verdict::kCorrupted;
    case absl::StatusCode::kNotFound: return Verdict::kStale;
    case absl::StatusCode::kFailedPrecondition:
      return ReasonOf(status) == ErrorReason::kPeerVersion ? Verdict::kError : Verdict::kStale;
    default: return Verdict::kError;
  }
}

struct Item {
  const GetItem* wanted = nullptr;
  absl::StatusOr<size_t>* result = nullptr;
  bool is_done = false;
  bool is_located = false;  // the master was asked about it
  size_t room = 0;
  size_t asked = 0;  // index in the Locate of this round
  // The first replica that was found corrupted, in any round: its node, which is told, has none to
  // give in the next.
  absl::Status corruption;

  // Of the current round.
  LocationPtr location;
  absl::InlinedVector<uint8_t, 8> order;  // of its replicas
  size_t tried = 0;                       // replicas
  std::vector<ReadOp> ops;                // of the replica that is being read
  // Of all replicas that failed in it.
  bool is_unreachable = false;
  absl::Status failure;
};

class GetCall {
 public:
  GetCall(Session& session, bool verify, const CallContext& context)
      : session_(session), verify_(verify), context_(context) {}

  // With `allocate`, the items get their memory from it.
  std::vector<absl::StatusOr<size_t>> Run(absl::Span<GetItem> wanted, const Allocate& allocate);
  std::vector<absl::StatusOr<size_t>> Run(absl::Span<const GetItem> wanted);

 private:
  void Admit(const GetItem& wanted, absl::StatusOr<size_t>* result);
  void LocateUnknown();
  void TakeLocated(const LocateAnswer& answer, absl::Span<const absl::string_view> keys);
  void SetLocation(Item& item, LocationPtr location);
  absl::Status MakeRoom(Item& item, uint64_t bytes);
  void ReadKnown();
  bool ReadOnce();
  void PrepareReads(Item& item);
  void Evaluate(Item& item);
  absl::Status CheckReads(const Item& item) const;
  void Forget();
  void GiveUp(Item& item);
  void Finish(Item& item, absl::StatusOr<size_t> result);

  Session& session_;
  const bool verify_;
  const CallContext& context_;
  std::vector<Item> items_;
  size_t unfinished_ = 0;
  // Where the memory is asked for: who gives it, and the items of `items_`, in order.
  const Allocate* allocate_ = nullptr;
  absl::Span<GetItem> allocated_;
};

std::vector<absl::StatusOr<size_t>> GetCall::Run(absl::Span<GetItem> wanted,
                                                 const Allocate& allocate) {
  allocate_ = &allocate;
  allocated_ = wanted;
  return Run(wanted);
}

std::vector<absl::StatusOr<size_t>> GetCall::Run(absl::Span<const GetItem> wanted) {
  std::vector<absl::StatusOr<size_t>> results(wanted.size(),
                                              absl::StatusOr<size_t>(absl::UnknownError("")));
  session_.counters().gets.Add(wanted.size());
  items_.reserve(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) Admit(wanted[i], &results[i]);
  Backoff backoff(kRoundBackoff, session_.random(), session_.waiter());
  for (int round = 1; unfinished_ > 0; ++round) {
    LocateUnknown();
    ReadKnown();
    if (unfinished_ == 0) break;
    Forget();
    if (round == kGetRounds || (round > 1 && !backoff.Pause(context_))) {
      for (Item& item : items_) GiveUp(item);
    }
  }
  return results;
}

void GetCall::Admit(const GetItem& wanted, absl::StatusOr<size_t>* result) {
  Item& item = items_.emplace_back();
  item.wanted = &wanted;
  item.result = result;
  ++unfinished_;
  if (absl::Status bad = CheckKey(wanted.key); !bad.ok()) return Finish(item, std::move(bad));
  item.room = TotalBytes(wanted.into);
  if (LocationPtr known = session_.locations().Find(wanted.key))
    SetLocation(item, std::move(known));
}

// One call for all keys whose location is not known, each named once.
void GetCall::LocateUnknown() {
  v1::LocateRequest request;
  std::vector<absl::string_view> keys;
  absl::flat_hash_map<absl::string_view, size_t> index_of;
  for (Item& item : items_) {
    if (item.is_done || item.location != nullptr) continue;
    item.is_located = true;
    const auto [index, is_new] = index_of.try_emplace(item.wanted->key, keys.size());
    item.asked = index->second;
    if (!is_new) continue;
    keys.push_back(item.wanted->key);
    request.add_keys(item.wanted->key);
  }
  if (keys.empty()) return;
  absl::StatusOr<LocateAnswer> answer =
      session_.Call(&MasterStub::Locate, request, context_, session_.policy());
  if (answer.ok() && answer->results.size() != keys.size()) {
    answer = absl::InternalError("the master answered with another number of keys");
  }
  if (answer.ok()) return TakeLocated(*answer, keys);
  for (Item& item : items_) {
    if (item.is_done || item.location != nullptr) continue;
    Finish(item, AnnotateKey(Annotate(answer.status(), "locate"), item.wanted->key));
  }
}

void GetCall::TakeLocated(const LocateAnswer& answer, absl::Span<const absl::string_view> keys) {
  const ResponseNodes nodes(answer.nodes, session_.peers());
  std::vector<absl::Status> misses(keys.size());
  std::vector<LocationPtr> locations(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const LocateAnswer::Result& result = answer.results[i];
    misses[i] = MissOf(result.status, keys[i]);
    if (!misses[i].ok()) continue;
    absl::StatusOr<LocationPtr> location = nodes.Resolve(result.location);
    misses[i] = AnnotateKey(location.status(), keys[i]);
    if (location.ok()) locations[i] = session_.locations().Insert(keys[i], *std::move(location));
  }
  for (Item& item : items_) {
    if (item.is_done || item.location != nullptr) continue;
    if (misses[item.asked].ok()) {
      SetLocation(item, locations[item.asked]);
    } else {
      Finish(item, misses[item.asked]);
    }
  }
}

void GetCall::SetLocation(Item& item, LocationPtr location) {
  if (allocate_ != nullptr) {
    // As below.
    if (!item.is_located && location->size_bytes() > session_.options().get_bytes_max) return;
    if (absl::Status failed = MakeRoom(item, location->size_bytes()); !failed.ok()) {
      return Finish(item, AnnotateKey(failed, item.wanted->key));
    }
  } else if (location->size_bytes() > item.room) {
    // A hint of another generation could be wrong about the size: only the master's word counts.
    if (!item.is_located) return;
    return Finish(
        item,
        AnnotateKey(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBufferTooShort,
                              absl::StrCat("the object has ", location->size_bytes(),
                                           " bytes, the buffer ", item.room),
                              {.hint = "give a larger buffer"}),
                    item.wanted->key));
  }
  item.order = OrderReplicas(*location, session_.random());
  item.tried = 0;
  item.is_unreachable = false;
  item.location = std::move(location);
}

absl::Status GetCall::MakeRoom(Item& item, uint64_t bytes) {
  const size_t index = static_cast<size_t>(&item - items_.data());
  GetItem& wanted = allocated_[index];
  if (!wanted.into.empty() && item.room >= bytes) return absl::OkStatus();
  const uint64_t bytes_max = session_.options().get_bytes_max;
  if (bytes > bytes_max) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat("the object is said to have ", bytes, " bytes; at most ",
                                  bytes_max, " are allocated for one"),
                     {.hint = "read it into a buffer of your own"});
  }
  ASSIGN_OR_RETURN(const MutableBuffer memory, (*allocate_)(index, bytes));
  if (memory.size() < bytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBufferTooShort,
                     absl::StrCat("the object has ", bytes, " bytes, the memory that was given ",
                                  memory.size()));
  }
  wanted.into = {memory};
  item.room = memory.size();
  return absl::OkStatus();
}

// Every item that has a location, through its replicas. Bounded by their number.
void GetCall::ReadKnown() {
  while (ReadOnce()) {
  }
}

// The next replica of every item that has one; false when there was nothing to read.
bool GetCall::ReadOnce() {
  BatchIo io(session_.waiter(), session_.options().io);
  std::vector<Item*> reading;
  for (Item& item : items_) {
    if (item.is_done || item.location == nullptr || item.tried == item.order.size()) continue;
    PrepareReads(item);
    const ReplicaPlaces& replica = item.location->replicas()[item.order[item.tried]];
    const bool has_alternative = item.tried + 1 < item.order.size();
    for (size_t part = 0; part < item.ops.size(); ++part) {
      io.Add(replica.parts[part].peer, &item.ops[part], has_alternative);
    }
    reading.push_back(&item);
  }
  if (reading.empty()) return false;
  const absl::Status ended = io.Run(context_);
  for (Item* item : reading) Evaluate(*item);
  if (ended.ok()) return true;
  for (Item& item : items_) {
    if (!item.is_done) Finish(item, AnnotateKey(ended, item.wanted->key));
  }
  return false;
}

void GetCall::PrepareReads(Item& item) {
  const ReplicaPlaces& replica = item.location->replicas()[item.order[item.tried]];
  transport::SpanCursor<std::byte> into(item.wanted->into);
  item.ops.clear();
  item.ops.reserve(replica.parts.size());
  for (const PartPlace& part : replica.parts) {
    ReadOp& op = item.ops.emplace_back();
    op.generation = item.location->generation();
    op.extent = part.extent;
    op.into = TakePieces(into, part.extent.payload_bytes());
    op.verify = verify_;
  }
}

// The outcome of one replica: the end of the item, or one replica less to try.
void GetCall::Evaluate(Item& item) {
  const absl::Status failure = CheckReads(item);
  if (failure.ok()) {
    const size_t bytes = item.location->size_bytes();
    Counters& counters = session_.counters();
    counters.get_bytes.Add(bytes);
    if (!item.is_located) counters.location_cache_hits.Add();
    return Finish(item, bytes);
  }
  const Verdict verdict = VerdictOf(failure);
  if (verdict == Verdict::kCorrupted) {
    session_.counters().checksum_failures.Add();
    item.corruption.Update(failure);
  }
  item.is_unreachable = item.is_unreachable || verdict == Verdict::kUnreachable;
  item.failure = failure;
  ++item.tried;
  if (item.tried < item.order.size()) session_.counters().failovers.Add();
}

absl::Status GetCall::CheckReads(const Item& item) const {
  const uint64_t fingerprint =
      transport::KeyFingerprint(session_.part_namespace(), item.wanted->key);
  for (size_t part = 0; part < item.ops.size(); ++part) {
    RETURN_IF_ERROR(item.ops[part].status);
    RETURN_IF_ERROR(CheckHeader(item.ops[part].header, *item.location, item.order[item.tried], part,
                                fingerprint));
  }
  return absl::OkStatus();
}

// What was known about the items that could not be read is wrong, or of no use.
void GetCall::Forget() {
  for (Item& item : items_) {
    if (item.is_done || item.location == nullptr) continue;
    session_.locations().Erase(item.wanted->key, item.location->generation());
    session_.counters().relocated.Add();
    item.location = nullptr;
  }
}

void GetCall::GiveUp(Item& item) {
  if (item.is_done) return;
  if (absl::Status ended = context_.Check(session_.clock()); !ended.ok()) {
    return Finish(item, AnnotateKey(ended, item.wanted->key));
  }
  if (VerdictOf(item.failure) == Verdict::kError) {
    return Finish(item, AnnotateKey(item.failure, item.wanted->key));
  }
  const bool is_corrupted = !item.is_unreachable && !item.corruption.ok();
  const ErrorReason reason = item.is_unreachable ? ErrorReason::kNodeLost
                             : is_corrupted      ? ErrorReason::kChecksumMismatch
                                                 : ErrorReason::kStaleGeneration;
  const absl::Status& why = is_corrupted ? item.corruption : item.failure;
  const ErrorDetail detail = DetailOf(why).value_or(ErrorDetail{});
  Finish(item, AnnotateKey(MakeError(absl::StatusCode::kNotFound, reason,
                                     absl::StrCat("no replica could be read: ", why.message()),
                                     {.node = detail.node}),
                           item.wanted->key));
}

void GetCall::Finish(Item& item, absl::StatusOr<size_t> result) {
  Counters& counters = session_.counters();
  if (result.ok()) {
    counters.hits.Add();
  } else if (absl::IsNotFound(result.status())) {
    counters.misses.Add();
  }
  *item.result = std::move(result);
  item.is_done = true;
  --unfinished_;
}

}  // namespace

absl::Status CheckHeader(const transport::PartHeader& header, const Location& location,
                         size_t replica, size_t part, uint64_t key_fingerprint) {
  if (!GuardIsOn(Guard::kReadIdentity)) return absl::OkStatus();
  const ReplicaPlaces& places = location.replicas()[replica];
  if (header.generation == location.generation() &&
      header.payload_bytes == places.parts[part].extent.payload_bytes() &&
      header.object_bytes == location.size_bytes() && header.key_fingerprint == key_fingerprint &&
      header.part_index == part && header.part_count == places.parts.size()) {
    return absl::OkStatus();
  }
  return AnnotateNode(
      MakeError(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch,
                absl::StrCat("the header of part ", part, " of generation ",
                             ToString(location.generation()), " is another object's")),
      *places.parts[part].peer);
}

absl::InlinedVector<uint8_t, 8> OrderReplicas(const Location& location, SharedRandom& random) {
  const Replicas& replicas = location.replicas();
  absl::InlinedVector<uint8_t, 8> order(replicas.size());
  if (replicas.size() == 1) return order;
  // Equal ones in a random rotation, so that readers spread over the copies.
  const size_t rotation = random.Next() % replicas.size();
  absl::InlinedVector<int, 8> cost(replicas.size());
  for (size_t i = 0; i < replicas.size(); ++i) {
    order[i] = static_cast<uint8_t>((i + rotation) % replicas.size());
    for (const PartPlace& part : replicas[i].parts) {
      const int far = part.peer->is_same_host() ? 0 : 1;
      cost[i] = std::max(cost[i], part.peer->is_avoided() ? 2 : far);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint8_t a, uint8_t b) { return cost[a] < cost[b]; });
  return order;
}

std::vector<absl::StatusOr<size_t>> GetMany(Session& session, absl::Span<const GetItem> items,
                                            bool verify, const CallContext& context) {
  if (absl::Status bad = session.CheckCall(items.size(), context); !bad.ok()) {
    return std::vector<absl::StatusOr<size_t>>(items.size(), bad);
  }
  return GetCall(session, verify, context).Run(items);
}

std::vector<absl::StatusOr<size_t>> GetMany(Session& session, absl::Span<const std::string> keys,
                                            Allocate allocate, bool verify,
                                            const CallContext& context) {
  if (absl::Status bad = session.CheckCall(keys.size(), context); !bad.ok()) {
    return std::vector<absl::StatusOr<size_t>>(keys.size(), bad);
  }
  std::vector<GetItem> items(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) items[i].key = keys[i];
  return GetCall(session, verify, context).Run(absl::MakeSpan(items), allocate);
}

}  // namespace moonpool::client
