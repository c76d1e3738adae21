#include "transport/stream/client_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::transport {
namespace {

constexpr size_t kInputBytes = 64 * 1024;
static_assert(kInputBytes >= 2 * kFrameBytesMax);

// Less is sent through the socket: two more copies cost less than the round trip of a claim.
constexpr uint64_t kMappedPayloadMin = 16 * 1024;

// Whoever finds more of them before any is sent has found enough for the node to know.
constexpr size_t kDoubtsMax = 64;

}  // namespace

ClientStream::ClientStream(UniqueFd fd, const HelloRequest& hello, Limits limits,
                           MappedPool* mapped)
    : limits_(limits),
      fd_(std::move(fd)),
      mapped_(mapped),
      ring_(limits.ops_max + 1),
      input_(kInputBytes),
      part_header_(PartHeader{}) {
  Push(Kind::kHello, nullptr, nullptr);
  output_.Commit(EncodeHello(hello, Front().id, output_.Reserve()));
  Front().output_end = output_.position();
  ++next_;
}

ClientStream::~ClientStream() {
  Fail(MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller,
                 "the channel was closed"));
}

absl::Status ClientStream::CheckRoom(uint64_t bytes) const {
  RETURN_IF_ERROR(failure_);
  const bool is_full = outstanding_ >= limits_.ops_max ||
                       (outstanding_ > 0 && outstanding_bytes_ + bytes > limits_.bytes_max);
  if (!is_full) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
      absl::StrCat(outstanding_, " ops and ", outstanding_bytes_, " bytes are outstanding"),
      {.hint = "make progress and submit again"});
}

absl::Status ClientStream::Add(ReadOp* op) {
  RETURN_IF_ERROR(CheckRoom(op->extent.payload_bytes()));
  ++outstanding_;
  outstanding_bytes_ += op->extent.payload_bytes();
  Push(Kind::kRead, op, nullptr);
  // A peer that cannot confirm, or has not said yet: the checksum tells as well.
  At(tail_ - 1).is_verified = op->verify || !peer_confirms_;
  return absl::OkStatus();
}

absl::Status ClientStream::Add(WriteOp* op) {
  RETURN_IF_ERROR(CheckRoom(op->record.extent.payload_bytes()));
  ++outstanding_;
  outstanding_bytes_ += op->record.extent.payload_bytes();
  const Extent& extent = op->record.extent;
  const bool is_mapped = mapped_ != nullptr && extent.payload_bytes() >= kMappedPayloadMin &&
                         !mapped_->Writable(extent).empty();
  Push(is_mapped ? Kind::kClaim : Kind::kWrite, nullptr, op);
  return absl::OkStatus();
}

void ClientStream::Doubt(Generation generation, const Extent& extent) {
  if (!peer_takes_doubts_ || !failure_.ok() || doubts_.size() >= kDoubtsMax) return;
  doubts_.push_back({generation, extent});
}

void ClientStream::Push(Kind kind, ReadOp* read, WriteOp* write) {
  At(tail_++) = {.kind = kind,
                 .id = next_id_++,
                 .read = read,
                 .write = write,
                 .is_verified = false,
                 .output_end = UINT64_MAX,
                 .refusal = {}};
}

void ClientStream::FinishFront(const absl::Status& status) {
  const Entry entry = std::move(Front());
  ++head_;
  if (entry.kind == Kind::kHello) return;
  --outstanding_;
  if (entry.read != nullptr) {
    outstanding_bytes_ -= entry.read->extent.payload_bytes();
    entry.read->status = status;
    entry.read->done = true;
  } else {
    outstanding_bytes_ -= entry.write->record.extent.payload_bytes();
    entry.write->status = entry.refusal.ok() ? status : entry.refusal;
    entry.write->done = true;
  }
}

bool ClientStream::Progress() {
  if (!failure_.ok()) return false;
  moved_bytes_ = 0;
  bool progressed = Send();
  progressed |= Receive();
  // What was received may have made room for more, or something to send (a SEAL).
  if (progressed && failure_.ok()) Send();
  return progressed;
}

void ClientStream::AppendWaits(std::vector<pollfd>* waits) const {
  if (!failure_.ok() || head_ == tail_) return;
  short events = POLLIN;
  if (!output_.empty() || has_unsent()) events |= POLLOUT;
  waits->push_back({fd_.get(), events, 0});
}

bool ClientStream::IsHealthy() const {
  if (!failure_.ok()) return false;
  return head_ != tail_ || IsQuiet(fd_.get(), padding_);
}

void ClientStream::Fail(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  fd_.Close();
  output_.Clear();
  doubts_.clear();
  is_sending_payload_ = is_receiving_payload_ = is_confirming_ = is_copying_ = false;
  while (head_ != tail_) FinishFront(status);
  next_ = tail_;
}

}  // namespace moonpool::transport
