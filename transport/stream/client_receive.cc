// The receiving half of a client's stream.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "transport/stream/client_stream.h"

namespace moonpool::transport {
namespace {

// Received and hashed right after, while it is in the second-level cache.
constexpr size_t kChunkBytes = 256 * 1024;
constexpr size_t kPayloadVectorsMax = 32;
// A payload that is copied out of the input buffer is at most this long; a longer one is received
// in place.
constexpr uint64_t kBufferedPayloadMax = 8 * 1024;
// Copied into mapped memory between two looks at the connection.
constexpr size_t kMappedStepBytes = 1 << 20;
constexpr size_t kReadOkFrameBytes = Padded(kFrameHeaderBytes);
constexpr size_t kReadOkBytes = kReadOkFrameBytes + kPartHeaderBytes;
constexpr size_t kOkBytes = Padded(kFrameHeaderBytes);

}  // namespace

bool ClientStream::Receive() {
  bool progressed = false;
  moved_bytes_ = 0;
  while (failure_.ok() && (head_ != next_ || padding_ > 0) &&
         moved_bytes_ < limits_.progress_bytes) {
    if (padding_ > 0 && !input().empty()) {
      const size_t skipped = std::min(padding_, input().size());
      padding_ -= skipped;
      ConsumeInput(skipped);
    } else if (is_receiving_payload_ && !input().empty()) {
      TakePayload();
    } else if (is_copying_) {
      CopySome();
    } else if (is_receiving_payload_ || !TakeAnswer()) {
      if (!failure_.ok() || !FillInput()) break;
    }
    progressed = true;
  }
  return progressed || !failure_.ok();
}

// True: one answer was taken out of the input.
bool ClientStream::TakeAnswer() {
  if (padding_ > 0) return false;
  if (input().size() < kFrameHeaderBytes) return false;
  const absl::StatusOr<FrameHeader> header = ParseAnswerHeader(input());
  if (!header.ok()) {
    Fail(header.status());
    return false;
  }
  const bool is_read = header->type == FrameType::kReadOk;
  if (is_read && (Front().kind != Kind::kRead || Front().id != header->request_id)) {
    FailBadAnswer("a payload that nobody asked for");
    return false;
  }
  const size_t needed = is_read ? kReadOkBytes : header->frame_bytes();
  if (input().size() < needed) return false;
  const ConstBytes body = is_read ? input().subspan(kReadOkFrameBytes, kPartHeaderBytes)
                                  : input().subspan(kFrameHeaderBytes, header->body_bytes);
  if (!OnAnswer(*header, body)) {
    if (failure_.ok()) FailBadAnswer("an answer to another request");
    return false;
  }
  ConsumeInput(needed);
  if (is_receiving_payload_ && into_.remaining() == 0) FinishRead();
  return true;
}

// False: the answer does not belong here.
bool ClientStream::OnAnswer(const FrameHeader& header, ConstBytes body) {
  const bool is_error = header.type == FrameType::kError;
  const absl::Status status = is_error ? ParseError(body) : absl::OkStatus();
  if (is_error && header.request_id == 0) Fail(status);
  if (!failure_.ok() || header.request_id != Front().id) return false;
  const FrameType request = static_cast<FrameType>(header.flags);
  if (is_error && Front().kind == Kind::kWrite && request == FrameType::kWrite) {
    Front().refusal = status;  // what its SEAL is answered does not matter any more
    return true;
  }
  // Nobody answers what has not been sent, and its buffers would still be in use.
  if (output_.sent_position() < Front().output_end) return false;
  if (header.type == FrameType::kHelloOk) return Front().kind == Kind::kHello && OnHelloOk(body);
  if (header.type == FrameType::kReadOk) {
    return Front().kind == Kind::kRead && !is_confirming_ && StartReadPayload(header, body);
  }
  return OnPlainAnswer(request, status);
}

// An OK or an ERROR.
bool ClientStream::OnPlainAnswer(FrameType request, const absl::Status& status) {
  switch (Front().kind) {
    case Kind::kHello:
      if (status.ok()) return false;
      Fail(status);
      return false;
    case Kind::kRead:
      if (request != FrameType::kRead || (status.ok() && !is_confirming_)) return false;
      // A header that was caught while the next owner wrote its own looks damaged, and is not.
      if (std::exchange(is_confirming_, false) && status.ok()) {
        FinishReadWith(part_header_.status());
      } else {
        FinishFront(status);
      }
      return true;
    case Kind::kWrite:
    case Kind::kSeal:
      if (request != FrameType::kSeal) return false;
      FinishFront(status);
      return true;
    case Kind::kClaim:
      if (request != FrameType::kClaim) return false;
      StartCopy(status);
      return true;
  }
  return false;
}

bool ClientStream::OnHelloOk(ConstBytes body) {
  const absl::StatusOr<HelloAnswer> answer = ParseHelloOk(body);
  absl::Status status = answer.status();
  if (answer.ok()) status = CheckWireVersion(answer->wire_major, answer->wire_minor);
  if (!status.ok()) {
    Fail(status);
    return false;
  }
  if ((answer->grants & kHelloMappedWriter) == 0) mapped_ = nullptr;
  is_ready_ = true;
  peer_confirms_ = answer->wire_minor >= kConfirmMinor;
  peer_takes_doubts_ = answer->wire_minor >= kDoubtMinor;
  FinishFront(absl::OkStatus());
  return true;
}

bool ClientStream::StartReadPayload(const FrameHeader& header, ConstBytes part_header) {
  const ReadOp& op = *Front().read;
  if (header.attached_bytes != op.extent.length) return false;
  part_header_ = CheckPartHeader(op.generation, op.extent, part_header);
  into_ = SpanCursor<std::byte>(op.into);
  into_checksum_.Reset();
  is_receiving_payload_ = true;
  return true;
}

// What came with the header is copied out of the input.
void ClientStream::TakePayload() {
  while (into_.remaining() > 0 && !input().empty()) {
    const MutableBytes piece = into_.Next(input().size());
    if (Front().is_verified) {
      into_checksum_.CopyAndUpdate(piece.data(), input().first(piece.size()));
    } else {
      std::memcpy(piece.data(), input().data(), piece.size());
    }
    into_.Advance(piece.size());
    moved_bytes_ += piece.size();
    ConsumeInput(piece.size());
  }
  if (into_.remaining() == 0) FinishRead();
}

// Receives the payload in place, and behind it the head of the next answer; or answers alone.
bool ClientStream::FillInput() {
  if (input_begin_ > 0) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  std::array<iovec, kPayloadVectorsMax + 1> vectors;
  size_t count = 0;
  size_t payload_room = 0;
  if (is_receiving_payload_) {
    count = into_.FillVectors(absl::MakeSpan(vectors).first(kPayloadVectorsMax), kChunkBytes,
                              &payload_room);
  }
  if (!is_receiving_payload_ || payload_room == into_.remaining()) {
    const size_t wanted = AnswerHeadroom();
    if (wanted > 0) vectors[count++] = {input_.data() + input_end_, wanted};
  }
  const absl::StatusOr<size_t> received =
      transport::Receive(fd_.get(), absl::MakeConstSpan(vectors.data(), count));
  if (!received.ok()) {
    Fail(received.status());
    return true;
  }
  if (*received == 0) return false;
  const size_t payload = std::min(*received, payload_room);
  input_end_ += *received - payload;
  moved_bytes_ += *received;
  OnPayload(payload);
  return true;
}

// How much of the coming answers to receive into the input: whole small ones, but of a large READ
// only the part in front of its payload.
size_t ClientStream::AnswerHeadroom() const {
  const size_t room = input_.size() - input_end_;
  size_t wanted = is_receiving_payload_ ? PaddingOf(Front().read->extent.length) : padding_;
  const bool is_in_front = is_receiving_payload_ || is_confirming_;
  if (is_in_front && !Front().is_verified) wanted += kOkBytes;
  uint64_t at = is_in_front ? head_ + 1 : head_;
  for (; at != next_ && wanted < room; ++at) {
    const Entry& entry = ring_[at % ring_.size()];
    if (entry.kind != Kind::kRead) {
      wanted += kFrameBytesMax;
      continue;
    }
    // An ERROR in place of the READ_OK is as short or comes in pieces.
    wanted += kReadOkBytes;
    if (entry.read->extent.payload_bytes() > kBufferedPayloadMax) break;
    wanted += Padded(entry.read->extent.payload_bytes());
    if (!entry.is_verified) wanted += kOkBytes;
  }
  // What is in the input already is the beginning of the first one.
  if (!is_receiving_payload_) wanted = std::max(wanted, input_end_ + kReadOkBytes) - input_end_;
  return std::min(wanted, room);
}

void ClientStream::OnPayload(size_t bytes) {
  while (bytes > 0) {
    const MutableBytes piece = into_.Next(bytes);
    if (Front().is_verified) into_checksum_.Update(piece);
    into_.Advance(piece.size());
    bytes -= piece.size();
  }
  if (is_receiving_payload_ && into_.remaining() == 0) FinishRead();
}

void ClientStream::FinishRead() {
  is_receiving_payload_ = false;
  ReadOp& op = *Front().read;
  padding_ = PaddingOf(op.extent.length);
  absl::Status status = part_header_.status();
  if (status.ok()) {
    op.header = *part_header_;
    if (Front().is_verified) status = CheckPayload(op.header, into_checksum_.Finish());
  }
  is_confirming_ = !Front().is_verified;
  if (!is_confirming_) FinishReadWith(status);
}

// The node had the part, and said so; what came is not what it was, if it is not OK.
void ClientStream::FinishReadWith(const absl::Status& verdict) {
  if (!verdict.ok()) Doubt(Front().read->generation, Front().read->extent);
  FinishFront(verdict);
}

// The extent is ours (or sealed already, then the record only needs its checksum again): fill it
// and seal it.
void ClientStream::StartCopy(const absl::Status& claimed) {
  WriteOp* const op = Front().write;
  const bool is_sealed = claimed.code() == absl::StatusCode::kAlreadyExists;
  if (!claimed.ok() && !is_sealed) return FinishFront(claimed);
  copy_into_ =
      is_sealed ? MutableBytes{} : mapped_->Writable(op->record.extent).subspan(kPartHeaderBytes);
  copy_from_ = SpanCursor<const std::byte>(op->from);
  into_checksum_.Reset();
  is_copying_ = true;
}

// One step of it; the caller looks at its deadline between some of them. The extent is ours as long
// as the connection is there: the look at it before each step keeps a client that was stopped in
// between from writing into what has got another owner meanwhile.
void ClientStream::CopySome() {
  const ConstBytes piece = copy_from_.Next(kMappedStepBytes);
  if (copy_into_.empty()) {
    into_checksum_.Update(piece);
  } else if (IsOpen(fd_.get())) {
    into_checksum_.CopyAndUpdate(copy_into_.data(), piece, CopyTo::kMemory);
    copy_into_.remove_prefix(piece.size());
  } else {
    return Fail(SocketError("write into mapped memory", ECONNRESET));
  }
  copy_from_.Advance(piece.size());
  moved_bytes_ += piece.size();
  if (copy_from_.remaining() > 0) return;
  is_copying_ = false;
  WriteOp* const op = Front().write;
  op->record.payload_checksum = into_checksum_.Finish();
  ++head_;
  Push(Kind::kSeal, nullptr, op);
}

void ClientStream::FailBadAnswer(absl::string_view what) {
  Fail(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame, what));
}

void ClientStream::ConsumeInput(size_t bytes) {
  input_begin_ += bytes;
  if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
}

}  // namespace moonpool::transport
