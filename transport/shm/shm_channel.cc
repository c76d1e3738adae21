#include "transport/shm/shm_channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/part_header.h"

namespace moonpool::transport {
namespace {

// What is read by one call and is larger than this does not wait in a cache for who uses it.
constexpr uint64_t kCachedBytesMax = 4 << 20;

}  // namespace
ShmChannel::ShmChannel(std::shared_ptr<ShmPeer> peer, std::unique_ptr<ClientStream> stream,
                       const ShmClientOptions& options)
    : peer_(std::move(peer)),
      stream_(std::move(stream)),
      options_(options),
      reads_(options.outstanding_ops_max) {}

ShmChannel::~ShmChannel() {
  Abandon(MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller,
                    "the channel was closed"));
}

absl::Status ShmChannel::CheckRoom(uint64_t bytes) const {
  RETURN_IF_ERROR(stream_->failure());
  const uint64_t all_bytes = read_bytes_ + stream_->outstanding_bytes();
  if (outstanding() < options_.outstanding_ops_max &&
      (outstanding() == 0 || all_bytes + bytes <= options_.outstanding_bytes_max)) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                   absl::StrCat(outstanding(), " ops and ", all_bytes, " bytes are outstanding"),
                   {.hint = "make progress and submit again"});
}

absl::Status ShmChannel::Submit(ReadOp* op) {
  RETURN_IF_ERROR(Validate(*op));
  RETURN_IF_ERROR(CheckRoom(op->extent.payload_bytes()));
  // A segment the node got later, or one that is no memory: the node knows.
  if (peer_->Readable(op->extent).empty()) return stream_->Add(op);
  reads_[tail_++ % reads_.size()] = op;
  read_bytes_ += op->extent.payload_bytes();
  return absl::OkStatus();
}

absl::Status ShmChannel::Submit(WriteOp* op) {
  RETURN_IF_ERROR(Validate(*op));
  RETURN_IF_ERROR(CheckRoom(op->record.extent.payload_bytes()));
  return stream_->Add(op);
}

// The stream first: the node works on what it gets while this thread copies.
bool ShmChannel::Progress() {
  bool progressed = stream_->Progress();
  uint64_t copied = 0;
  while (mapped_reads() > 0 && copied < options_.progress_bytes) {
    if (!is_started_) StartRead();
    if (is_started_) copied += CopySome(options_.progress_bytes - copied);
    progressed = true;
  }
  // The read that found it is done, and there may be no other Progress.
  if (stream_->has_doubts()) stream_->Progress();
  return progressed;
}

void ShmChannel::StartRead() {
  ReadOp& op = Front();
  const ConstBytes part = peer_->Readable(op.extent);
  absl::StatusOr<PartHeader> header =
      CheckPartHeader(op.generation, op.extent, part.first(kPartHeaderBytes));
  if (absl::IsDataLoss(header.status())) {
    // Unless it was caught while the next owner wrote its own.
    const absl::Status owned = CheckStillOwned(op.generation, part.data());
    if (!owned.ok()) header = owned;
  }
  if (!header.ok()) return FinishFront(header.status());
  op.header = *header;
  left_ = part.subspan(kPartHeaderBytes);
  into_ = SpanCursor<std::byte>(op.into);
  checksum_.Reset();
  to_ = read_bytes_ > kCachedBytesMax ? CopyTo::kMemory : CopyTo::kCache;
  is_started_ = true;
}

uint64_t ShmChannel::CopySome(uint64_t bytes_max) {
  ReadOp& op = Front();
  uint64_t copied = 0;
  while (copied < bytes_max && !left_.empty()) {
    const MutableBytes piece = into_.Next(bytes_max - copied);
    if (op.verify) {
      checksum_.CopyAndUpdate(piece.data(), left_.first(piece.size()), to_);
    } else {
      CopyBytes(piece.data(), left_.first(piece.size()), to_);
    }
    into_.Advance(piece.size());
    left_.remove_prefix(piece.size());
    copied += piece.size();
  }
  if (left_.empty()) FinishFront(Judge(op));
  return copied;
}

// Everything is copied. With a checksum that matches the header, the bytes are right whatever has
// happened to the part since; without, it must still be the same owner's.
absl::Status ShmChannel::Judge(const ReadOp& op) const {
  const std::byte* const part = peer_->Readable(op.extent).data();
  if (!op.verify) return CheckStillOwned(op.header, op.extent, part);
  const absl::Status payload = CheckPayload(op.header, checksum_.Finish());
  if (!payload.ok()) RETURN_IF_ERROR(CheckStillOwned(op.generation, part));
  return payload;
}

void ShmChannel::FinishFront(const absl::Status& status) {
  ReadOp& op = Front();
  ++head_;
  is_started_ = false;
  if (absl::IsDataLoss(status)) Doubt(op.generation, op.extent);
  read_bytes_ -= op.extent.payload_bytes();
  op.status = status;
  op.done = true;
}

size_t ShmChannel::outstanding() const { return mapped_reads() + stream_->outstanding(); }

void ShmChannel::AppendWaits(std::vector<pollfd>* waits) const { stream_->AppendWaits(waits); }

void ShmChannel::Abandon(const absl::Status& status) {
  while (mapped_reads() > 0) FinishFront(status);
  stream_->Fail(status);
}

bool ShmChannel::healthy() const { return stream_->IsHealthy() && peer_->IsAlive(); }

absl::StatusOr<std::unique_ptr<PinnedPart>> ShmChannel::OpenView(Generation generation,
                                                                 const Extent& extent) {
  return peer_->OpenView(generation, extent);
}

}  // namespace moonpool::transport
