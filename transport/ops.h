// What a channel moves: one part of one replica per operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "transport/part_header.h"

namespace moonpool::transport {

using MutableBytes = absl::Span<std::byte>;
using ConstBytes = absl::Span<const std::byte>;
// The buffers of an op, in order. Most have one.
using MutablePieces = absl::InlinedVector<MutableBytes, 1>;
using ConstPieces = absl::InlinedVector<ConstBytes, 1>;

// What the node writes down when a part is complete (rule R3). Also the node's inventory record.
struct SealRecord {
  Generation generation;
  std::string name_space;  // with its layout fingerprint: see JoinPartNamespace (common/names.h)
  std::string key;
  std::string parent;  // empty = start of a chain
  Extent extent;
  uint64_t object_bytes = 0;
  uint16_t part_index = 0;
  uint16_t part_count = 1;
  uint8_t replica_index = 0;
  uint8_t replicas = 0;  // that the object is to have; 0: not said, by wire version 1.2 and older
  uint64_t payload_checksum = 0;
  bool operator==(const SealRecord&) const = default;
};

// The header that stands in memory for a sealed record.
PartHeader HeaderOf(const SealRecord& record);

// Reads a sealed part into the caller's buffers. Submitted by pointer; the op, its spans and the
// buffers stay where they are until the op is done. No two outstanding reads share a buffer.
struct ReadOp {
  // In.
  Generation generation;
  Extent extent;
  MutablePieces into;  // sizes add up to extent.payload_bytes()
  // Compute the checksum on the way in and compare. Without, the bytes are still this generation's
  // and no other's, but what has damaged them is not found.
  bool verify = true;
  // Out, valid once done. OK: `header` is the part's and, with verify, the payload matches it.
  // NOT_FOUND/STALE_GENERATION: the generation no longer owns the extent. DATA_LOSS: torn or
  // corrupted. UNAVAILABLE: the peer or the connection failed. The buffers' content is undefined
  // unless OK.
  absl::Status status;
  PartHeader header;
  bool done = false;
};

// Writes a part and seals it.
struct WriteOp {
  // In. record.payload_checksum is computed on the way out and filled in.
  SealRecord record;
  ConstPieces from;  // sizes add up to record.extent.payload_bytes()
  // Out. OK: sealed, survives the master (R3). FAILED_PRECONDITION/STALE_GENERATION or STALE_TERM:
  // a newer owner (R2). DATA_LOSS/CHECKSUM_MISMATCH: damaged on the way, and not sealed; write it
  // again. UNAVAILABLE/BYTES_PINNED: a view or mapped writer still uses the bytes.
  // UNAVAILABLE otherwise: unknown whether sealed; repeating the op is safe.
  absl::Status status;
  bool done = false;
};

// A part is at most this long, so that sums of offsets and lengths never overflow.
inline constexpr uint64_t kMaxExtentBytes = uint64_t{1} << 40;
inline constexpr uint64_t kMaxExtentOffset = uint64_t{1} << 60;

// INVALID_ARGUMENT/BAD_ARGUMENT when no peer could ever serve it: an extent shorter than its header
// or beyond the limits above, buffers that do not add up, names that are too long.
absl::Status Validate(const Extent& extent);
absl::Status Validate(const SealRecord& record);
absl::Status Validate(const ReadOp& op);
absl::Status Validate(const WriteOp& op);

}  // namespace moonpool::transport
