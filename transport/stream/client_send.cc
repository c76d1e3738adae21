// The sending half of a client's stream.
#include <algorithm>

#include "transport/stream/client_stream.h"

namespace moonpool::transport {
namespace {

// Hashed, and sent right after, while it is in the second-level cache.
constexpr size_t kChunkBytes = 128 * 1024;
// Prepared ahead of a send: more would only grow cold.
constexpr uint64_t kPreparedBytes = 256 * 1024;
constexpr size_t kPreparedSmallBytes = 32 * 1024;
// Sent by one Progress before it looks for answers.
constexpr uint64_t kProgressBytes = 2 << 20;

}  // namespace

bool ClientStream::Send() {
  bool progressed = false;
  while (moved_bytes_ < kProgressBytes) {
    FillOutput();
    if (output_.empty()) break;
    const absl::StatusOr<size_t> sent = output_.Flush(fd_.get(), 2 * kPreparedBytes);
    if (!sent.ok()) {
      Fail(sent.status());
      return true;
    }
    if (*sent == 0) break;
    progressed = true;
    moved_bytes_ += *sent;
  }
  return progressed;
}

void ClientStream::FillOutput() {
  while (has_unsent() && output_.pending_bytes() < kPreparedBytes &&
         output_.small_bytes() < kPreparedSmallBytes) {
    if (is_sending_payload_) {
      ContinuePayload();
    } else if (has_doubts()) {
      SendDoubts();
    } else {
      StartEntry(At(next_++));
    }
  }
}

void ClientStream::SendDoubts() {
  for (const ExtentRequest& doubt : doubts_) {
    output_.Commit(EncodeExtentRequest(FrameType::kDoubt, 0, next_id_++, doubt, output_.Reserve()));
  }
  doubts_.clear();
}

void ClientStream::StartEntry(Entry& entry) {
  const auto request = [&](FrameType type, uint8_t flags, Generation generation,
                           const Extent& extent) {
    output_.Commit(
        EncodeExtentRequest(type, flags, entry.id, {generation, extent}, output_.Reserve()));
  };
  switch (entry.kind) {
    case Kind::kHello: break;  // went out first
    case Kind::kRead:
      request(FrameType::kRead, entry.is_verified ? 0 : kFlagConfirm, entry.read->generation,
              entry.read->extent);
      break;
    case Kind::kClaim:
      request(FrameType::kClaim, 0, entry.write->record.generation, entry.write->record.extent);
      break;
    case Kind::kSeal:
      output_.Commit(EncodeSeal(entry.id, entry.write->record, output_.Reserve()));
      break;
    case Kind::kWrite:
      request(FrameType::kWrite, kFlagQuiet, entry.write->record.generation,
              entry.write->record.extent);
      from_ = SpanCursor<const std::byte>(entry.write->from);
      from_checksum_.Reset();
      is_sending_payload_ = true;
      return;
  }
  entry.output_end = output_.position();
}

// The next chunk of the payload; behind the last one its SEAL.
void ClientStream::ContinuePayload() {
  if (from_.remaining() > 0) {
    const ConstBytes chunk = from_.Next(kChunkBytes);
    from_checksum_.Update(chunk);
    output_.Borrow(chunk);
    from_.Advance(chunk.size());
    return;
  }
  is_sending_payload_ = false;
  Entry& entry = At(next_ - 1);
  const uint64_t payload_bytes = entry.write->record.extent.payload_bytes();
  output_.Commit(EncodePadding(payload_bytes, output_.Reserve()));
  entry.write->record.payload_checksum = from_checksum_.Finish();
  output_.Commit(EncodeSeal(entry.id, entry.write->record, output_.Reserve()));
  entry.output_end = output_.position();
}

}  // namespace moonpool::transport
