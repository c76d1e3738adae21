#include "client_sdk/core/view_path.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "client_sdk/core/get_path.h"
#include "client_sdk/core/look_path.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/guard.h"

namespace moonpool {

// Parts outlive the channel they came from, and so the client.
struct View::Rep {
  absl::InlinedVector<std::unique_ptr<transport::PinnedPart>, 1> parts;
  absl::InlinedVector<ConstBuffer, 1> pieces;
  uint64_t size_bytes = 0;
};

View::View(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
View::View(View&&) noexcept = default;
View& View::operator=(View&&) noexcept = default;
View::~View() = default;

absl::Span<const ConstBuffer> View::pieces() const { return rep_->pieces; }
uint64_t View::size_bytes() const { return rep_->size_bytes; }

bool View::valid() const {
  for (const auto& part : rep_->parts) {
    if (!part->still_pinned()) return false;
  }
  return true;
}

namespace client {
namespace {

using transport::PinnedPart;

// Hashed between two looks at the caller's deadline.
constexpr size_t kHashStepBytes = 1 << 20;

bool IsOnThisHost(const ReplicaPlaces& replica) {
  for (const PartPlace& part : replica.parts) {
    if (!part.peer->is_same_host()) return false;
  }
  return true;
}

absl::Status Elsewhere(const Location& location) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerUnreachable,
      absl::StrCat("no replica is on this host; the object is on ", location.NodeNames()),
      {.hint = "use Get"});
}

// One part of one replica, pinned.
absl::StatusOr<std::unique_ptr<PinnedPart>> OpenPart(const PartPlace& place, Generation generation,
                                                     const CallContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<transport::Channel> channel,
                   place.peer->AcquireViews(context));
  absl::StatusOr<std::unique_ptr<PinnedPart>> part =
      channel->views()->OpenView(generation, place.extent);
  // The node of this channel has gone, and its pins protect nothing any more.
  if (absl::IsUnavailable(part.status())) place.peer->DropViews(channel.get());
  if (!part.ok()) return AnnotateNode(part.status(), *place.peer);
  return part;
}

absl::Status CheckPayload(const PinnedPart& part, const CallContext& context, const Clock& clock) {
  ChecksumStream checksum;
  for (transport::ConstBytes left = part.payload(); !left.empty();) {
    RETURN_IF_ERROR(context.Check(clock));
    const size_t step = std::min(left.size(), kHashStepBytes);
    checksum.Update(left.first(step));
    left.remove_prefix(step);
  }
  if (!GuardIsOn(Guard::kChecksum)) return absl::OkStatus();
  if (checksum.Finish() == part.header().payload_checksum) return absl::OkStatus();
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch,
                   absl::StrCat("the bytes of generation ", ToString(part.header().generation),
                                " in the pool do not match their checksum"));
}

// The node looks at the part. It is a hint: what keeps it from getting there does not matter.
void Doubt(const PartPlace& place, Generation generation, const CallContext& context) {
  const absl::StatusOr<ChannelLease> channel = place.peer->Acquire(context);
  if (!channel.ok() || channel->handshake().has_value()) return;
  (*channel)->Doubt(generation, place.extent);
  (*channel)->Progress();
}

absl::StatusOr<View> OpenReplica(Session& session, const Location& location, size_t replica,
                                 uint64_t fingerprint, bool verify, const CallContext& context) {
  const ReplicaPlaces& places = location.replicas()[replica];
  const bool must_verify = verify && !location.is_verified(replica);
  auto rep = std::make_unique<View::Rep>();
  rep->size_bytes = location.size_bytes();
  for (size_t index = 0; index < places.parts.size(); ++index) {
    const PartPlace& place = places.parts[index];
    absl::StatusOr<std::unique_ptr<PinnedPart>> part =
        OpenPart(place, location.generation(), context);
    absl::Status status = part.status();
    if (status.ok()) {
      status = CheckHeader((*part)->header(), location, replica, index, fingerprint);
    }
    if (status.ok() && must_verify) {
      status = AnnotateNode(CheckPayload(**part, context, session.clock()), *place.peer);
    }
    if (absl::IsDataLoss(status)) Doubt(place, location.generation(), context);
    RETURN_IF_ERROR(status);
    if (!(*part)->payload().empty()) rep->pieces.push_back((*part)->payload());
    rep->parts.push_back(*std::move(part));
  }
  if (must_verify) location.SetVerified(replica);
  return View(std::move(rep));
}

// Through the replicas on this host. What the failures of several add up to: the last of them, but
// corruption only when all are corrupted.
absl::StatusOr<View> OpenAny(Session& session, const Location& location, uint64_t fingerprint,
                             bool verify, const CallContext& context) {
  absl::Status failure = Elsewhere(location);
  bool is_first = true;
  for (size_t replica = 0; replica < location.replicas().size(); ++replica) {
    if (!IsOnThisHost(location.replicas()[replica])) continue;
    absl::StatusOr<View> view =
        OpenReplica(session, location, replica, fingerprint, verify, context);
    if (view.ok()) return view;
    if (absl::IsDataLoss(view.status())) session.counters().checksum_failures.Add();
    if (is_first || !absl::IsDataLoss(view.status())) failure = view.status();
    is_first = false;
  }
  return failure;
}

// Another location, or another channel, may help.
bool IsWorthAnother(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsUnavailable(status);
}

// As a reader sees it: the reason of a miss.
absl::Status MissOfView(const absl::Status& failure) {
  if (!IsWorthAnother(failure)) return failure;
  const ErrorDetail detail = DetailOf(failure).value_or(ErrorDetail{});
  const ErrorReason reason = absl::IsUnavailable(failure) ? ErrorReason::kNodeLost
                             : absl::IsDataLoss(failure)  ? ErrorReason::kChecksumMismatch
                                                          : ErrorReason::kStaleGeneration;
  return MakeError(absl::StatusCode::kNotFound, reason,
                   absl::StrCat("no replica could be viewed: ", failure.message()),
                   {.node = detail.node});
}

}  // namespace

absl::StatusOr<View> GetView(Session& session, absl::string_view key, bool verify,
                             const CallContext& context) {
  RETURN_IF_ERROR(session.CheckCall(1, context));
  Counters& counters = session.counters();
  counters.gets.Add();
  RETURN_IF_ERROR(CheckKey(key));
  const uint64_t fingerprint = transport::KeyFingerprint(session.part_namespace(), key);
  absl::Status failure;
  for (int round = 1; round <= kGetRounds; ++round) {
    LocationPtr location = session.locations().Find(key);
    const bool is_known = location != nullptr;
    if (!is_known) {
      absl::StatusOr<LocationPtr> located = FindOrLocate(session, key, context);
      if (absl::IsNotFound(located.status())) counters.misses.Add();
      if (!located.ok()) return AnnotateKey(located.status(), key);
      location = *std::move(located);
    }
    absl::StatusOr<View> view = OpenAny(session, *location, fingerprint, verify, context);
    if (view.ok()) {
      counters.hits.Add();
      if (is_known && round == 1) counters.location_cache_hits.Add();
      return view;
    }
    failure = std::move(view).status();
    if (!IsWorthAnother(failure)) return AnnotateKey(failure, key);
    RETURN_IF_ERROR(AnnotateKey(context.Check(session.clock()), key));
    session.locations().Erase(key, location->generation());
    counters.relocated.Add();
  }
  counters.misses.Add();
  return AnnotateKey(MissOfView(failure), key);
}

std::vector<absl::StatusOr<View>> GetViewMany(Session& session, absl::Span<const std::string> keys,
                                              bool verify, const CallContext& context) {
  std::vector<absl::StatusOr<View>> views;
  views.reserve(keys.size());
  if (const absl::Status bad = session.CheckCall(keys.size(), context); !bad.ok()) {
    for (size_t i = 0; i < keys.size(); ++i) views.emplace_back(bad);
    return views;
  }
  std::vector<std::string> unknown;
  for (const std::string& key : keys) {
    if (CheckKey(key).ok() && session.locations().Find(key) == nullptr) unknown.push_back(key);
  }
  // The locations stay behind in the cache.
  absl::flat_hash_map<absl::string_view, absl::Status> failed;
  const std::vector<absl::StatusOr<Description>> located = Describe(session, unknown, context);
  for (size_t i = 0; i < unknown.size(); ++i) {
    if (!located[i].ok()) failed.emplace(unknown[i], located[i].status());
  }
  for (const std::string& key : keys) {
    const auto failure = failed.find(key);
    if (failure == failed.end()) {
      views.push_back(GetView(session, key, verify, context));
      continue;
    }
    session.counters().gets.Add();
    if (absl::IsNotFound(failure->second)) session.counters().misses.Add();
    views.push_back(failure->second);
  }
  return views;
}

}  // namespace client
}  // namespace moonpool
