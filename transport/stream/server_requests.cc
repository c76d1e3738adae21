// What a server connection does for each request.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "transport/stream/server_connection.h"

namespace moonpool::transport {
namespace {

// A newer owner waits for the step that is running: one receive of at most this.
constexpr size_t kStepBytes = 256 * 1024;

absl::Status Superseded(Generation generation) {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                   absl::StrCat("generation ", ToString(generation), " was superseded"));
}

}  // namespace

ServerConnection::Step ServerConnection::Serve(const FrameHeader& header, const RequestBody& body) {
  const uint64_t id = header.request_id;
  switch (header.type) {
    case FrameType::kHello: return OnHello(id, std::get<HelloRequest>(body));
    case FrameType::kRead: OnRead(header, std::get<ExtentRequest>(body)); break;
    case FrameType::kWrite: OnWrite(header, std::get<ExtentRequest>(body)); break;
    case FrameType::kClaim: OnClaim(id, std::get<ExtentRequest>(body)); break;
    case FrameType::kSeal: OnSeal(id, std::get<SealRecord>(body)); break;
    case FrameType::kRelease: OnRelease(id, std::get<ExtentRequest>(body)); break;
    case FrameType::kDoubt: OnDoubt(std::get<ExtentRequest>(body)); break;
    default: return Step::kFailed;
  }
  return Step::kDone;
}

ServerConnection::Step ServerConnection::OnHello(uint64_t request_id, const HelloRequest& hello) {
  const auto refuse = [&](const absl::Status& error) {
    scope_.counters.handshakes_refused.Add(1);
    Refuse(error);
    return Step::kDone;
  };
  absl::Status version = CheckWireVersion(hello.wire_major, hello.wire_minor);
  if (!version.ok()) return refuse(version);
  if (hello.incarnation != scope_.target.incarnation()) {
    return refuse(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                            "another life of the pool answers at this address",
                            {.hint = "locate the key again"}));
  }
  HelloAnswer answer{.wire_major = kWireMajor,
                     .wire_minor = kWireMinor,
                     .incarnation = scope_.target.incarnation(),
                     .grants = 0,
                     .pin_slots = 0,
                     .segments = {}};
  std::vector<int> descriptors;
  auto session = scope_.backend.Admit(fd_.get(), hello, &answer, &descriptors);
  if (!session.ok()) return refuse(session.status());
  session_ = *std::move(session);
  scope_.counters.connections.Add(1);
  state_ = State::kFrames;
  // The first bytes on this socket: they fit. The descriptors travel with them.
  std::array<std::byte, kFrameBytesMax> frame;
  const iovec vector{frame.data(), EncodeHelloOk(request_id, answer, frame.data())};
  const absl::StatusOr<size_t> sent = Send(fd_.get(), absl::MakeConstSpan(&vector, 1), descriptors);
  if (!sent.ok() || *sent != vector.iov_len) return Step::kFailed;
  scope_.counters.sent_bytes.Add(*sent);
  return Step::kDone;
}

void ServerConnection::OnRead(const FrameHeader& header, const ExtentRequest& request) {
  const uint64_t request_id = header.request_id;
  scope_.counters.reads.Add(1);
  const absl::StatusOr<ConstBytes> part =
      scope_.target.OpenRead(request.generation, request.extent);
  if (!part.ok()) return Answer(FrameType::kRead, request_id, part.status());
  output_.Commit(EncodeReadOk(request_id, part->size(), output_.Reserve()));
  output_.Borrow(*part);
  output_.Commit(EncodePadding(part->size(), output_.Reserve()));
  if ((header.flags & kFlagConfirm) != 0) unconfirmed_ = {request_id, request};
}

// The kernel has copied all of the part. Nothing holds its bytes meanwhile, so a peer that reads
// slowly, or not at all, costs their next owner nothing. The index is asked, not the header: where
// it stood there may be payload of the next owner, who can write there what they like.
void ServerConnection::ConfirmRead() {
  const auto [request_id, read] = *std::exchange(unconfirmed_, std::nullopt);
  Answer(FrameType::kRead, request_id,
         scope_.target.OpenRead(read.generation, read.extent).status());
}

void ServerConnection::HoldClaim(const ExtentKey& key, std::shared_ptr<WriteClaim> claim,
                                 WriterKind kind) {
  if (kind == WriterKind::kMapped) ++mapped_claims_;
  claims_[key] = {std::move(claim), kind};
}

void ServerConnection::DropClaim(const ExtentKey& key) {
  const auto held = claims_.find(key);
  if (held == claims_.end()) return;
  if (held->second.kind == WriterKind::kMapped) --mapped_claims_;
  claims_.erase(held);
}

absl::StatusOr<std::shared_ptr<WriteClaim>> ServerConnection::ClaimExtent(
    const ExtentRequest& request, WriterKind kind) {
  DropClaim({request.generation, request.extent});  // a repeated op starts over
  if (claims_.size() >= scope_.limits.claims_max) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat("connection holds ", claims_.size(), " unsealed extents"),
                     {.hint = "seal or release them first"});
  }
  return scope_.target.Claim(request.generation, request.extent, kind);
}

void ServerConnection::OnWrite(const FrameHeader& header, const ExtentRequest& request) {
  scope_.counters.writes.Add(1);
  incoming_ = {.header = header,
               .key = {request.generation, request.extent},
               .claim = nullptr,
               .received = 0};
  auto claim = ClaimExtent(request, WriterKind::kStepwise);
  if (claim.ok()) {
    incoming_.claim = *std::move(claim);
    state_ = State::kPayload;
    if (header.attached_bytes == 0) FinishPayload(absl::OkStatus());
    return;
  }
  // Sealed already: the same bytes once more, nothing to do with them.
  const bool is_repeated = claim.status().code() == absl::StatusCode::kAlreadyExists;
  FinishPayload(is_repeated ? absl::OkStatus() : claim.status());
}

ServerConnection::Step ServerConnection::StepPayload() {
  WriteClaim& claim = *incoming_.claim;
  const uint64_t left = incoming_.header.attached_bytes - incoming_.received;
  const size_t room = std::min<uint64_t>(left, kStepBytes);
  if (input().empty() && socket_is_drained_) return Step::kBlocked;
  if (!claim.BeginStep()) {
    FinishPayload(Superseded(incoming_.key.generation));
    return Step::kDone;
  }
  std::byte* to = claim.payload().data() + incoming_.received;
  size_t bytes = std::min(input().size(), room);
  Step step = Step::kDone;
  if (bytes > 0) {
    std::memcpy(to, input().data(), bytes);
    ConsumeInput(bytes);
  } else {
    // The frames behind the payload come with its last bytes.
    MakeInputRoom();
    const std::array<iovec, 2> vectors = {
        iovec{to, room}, iovec{input_.get() + input_end_, left == room ? kFrameBytesMax : 0}};
    const Moved moved = ReceiveInto(vectors, room + vectors[1].iov_len);
    bytes = std::min(moved.bytes, room);
    input_end_ += moved.bytes - bytes;
    step = moved.step;
  }
  claim.EndStep();
  incoming_.received += bytes;
  if (incoming_.received == incoming_.header.attached_bytes) FinishPayload(absl::OkStatus());
  return step;
}

// The outcome of a WRITE is known; what is left of its payload, and the padding, is thrown
// away.
void ServerConnection::FinishPayload(const absl::Status& status) {
  const FrameHeader& header = incoming_.header;
  discard_bytes_ = Padded(header.attached_bytes) - incoming_.received;
  state_ = discard_bytes_ > 0 ? State::kDiscard : State::kFrames;
  std::shared_ptr<WriteClaim> claim = std::move(incoming_.claim);
  if (status.ok() && claim != nullptr) {
    claim->SetWritten();
    HoldClaim(incoming_.key, std::move(claim), WriterKind::kStepwise);
  }
  if (status.ok() && (header.flags & kFlagQuiet) != 0) return;
  Answer(FrameType::kWrite, header.request_id, status);
}

void ServerConnection::OnClaim(uint64_t request_id, const ExtentRequest& request) {
  scope_.counters.claims.Add(1);
  if (!session_->is_mapped_writer()) {
    return Answer(FrameType::kClaim, request_id,
                  MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                            "the peer has no writable memory"));
  }
  auto claim = ClaimExtent(request, WriterKind::kMapped);
  const absl::Status status = claim.status();
  if (claim.ok()) {
    HoldClaim({request.generation, request.extent}, *std::move(claim), WriterKind::kMapped);
  }
  Answer(FrameType::kClaim, request_id, status);
}

void ServerConnection::OnSeal(uint64_t request_id, const SealRecord& record) {
  scope_.counters.seals.Add(1);
  const auto held = claims_.find({record.generation, record.extent});
  if (held != claims_.end() && held->second.kind == WriterKind::kMapped) {
    held->second.claim->SetWritten();
  }
  const absl::Status status = scope_.target.Seal(record);
  DropClaim({record.generation, record.extent});
  Answer(FrameType::kSeal, request_id, status);
}

void ServerConnection::OnRelease(uint64_t request_id, const ExtentRequest& request) {
  scope_.counters.releases.Add(1);
  DropClaim({request.generation, request.extent});
  Answer(FrameType::kRelease, request_id, absl::OkStatus());
}

void ServerConnection::OnDoubt(const ExtentRequest& request) {
  scope_.target.Doubt(request.generation, request.extent);
}

void ServerConnection::Answer(FrameType request, uint64_t request_id, const absl::Status& status) {
  if (status.ok()) {
    output_.Commit(EncodeOk(request, request_id, output_.Reserve()));
    return;
  }
  const ErrorReason reason = ReasonOf(status);
  const bool is_stale =
      reason == ErrorReason::kStaleGeneration || reason == ErrorReason::kStaleTerm;
  (is_stale ? scope_.counters.stale : scope_.counters.errors).Add(1);
  output_.Commit(EncodeError(request, request_id, status, output_.Reserve()));
}

}  // namespace moonpool::transport
