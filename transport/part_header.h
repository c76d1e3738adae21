// The 64 bytes in front of every part's payload in pool memory. They travel with the payload on
// every path, so that a reader can tell whose bytes it got without asking anybody.
//
// Little-endian:
//    0  u32  magic "MPPH"
//    4  u16  layout version (1)
//    6  u16  reserved, 0
//    8  u64  generation; 0 = not sealed (set to 0 before a newer owner may write)
//   16  u64  payload bytes of this part
//   24  u64  XXH3-64 of the payload
//   32  u64  bytes of the whole object
//   40  u64  XXH3-64 of namespace, one 0 byte, key
//   48  u16  index of this part, 50 u16 number of parts
//   52  u32  reserved, 0
//   56  u64  XXH3-64 of bytes 0 to 55
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/types.h"

namespace moonpool::transport {

struct PartHeader {
  Generation generation;
  uint64_t payload_bytes = 0;
  uint64_t payload_checksum = 0;
  uint64_t object_bytes = 0;
  uint64_t key_fingerprint = 0;
  uint16_t part_index = 0;
  uint16_t part_count = 1;
  bool operator==(const PartHeader&) const = default;
};

inline constexpr size_t kGenerationAt = 8;

uint64_t KeyFingerprint(absl::string_view name_space, absl::string_view key);

// `to` has kPartHeaderBytes and is 8-byte aligned. The generation is stored last, so that a reader
// of shared memory that sees it sees the rest as well.
void EncodePartHeader(const PartHeader& header, std::byte* to);

// DATA_LOSS/CHECKSUM_MISMATCH when the bytes are no sealed header (unsealed, torn, or something
// else).
absl::StatusOr<PartHeader> DecodePartHeader(absl::Span<const std::byte> bytes);

// What every reader does with the header it got: it is whole, and it is that of this generation's
// part in an extent of this size. NOT_FOUND/STALE_GENERATION when another generation or none owns
// the bytes, DATA_LOSS/CHECKSUM_MISMATCH when they are damaged.
absl::StatusOr<PartHeader> CheckPartHeader(Generation generation, const Extent& extent,
                                           absl::Span<const std::byte> bytes);
// And with the payload's checksum. DATA_LOSS/CHECKSUM_MISMATCH.
absl::Status CheckPayload(const PartHeader& header, uint64_t payload_checksum);

// Clears the generation of the header at `to` (8-byte aligned) with one atomic store: readers of
// shared memory see either the old header or an unsealed one.
void InvalidatePartHeader(std::byte* to);
// Puts the generation back after InvalidatePartHeader, when the new owner was refused.
void RestorePartHeader(Generation generation, std::byte* to);
// The generation as it stands in shared memory now. Sequentially consistent, like the invalidation:
// of a viewer that pins and then looks, and an owner that invalidates and then looks for pins, at
// least one sees the other.
Generation LoadPartGeneration(const std::byte* from);
// For a reader that has the memory mapped and cannot ask its target. After the bytes behind the
// header at `part` were copied: OK when all of them were still that generation's, since an owner
// invalidates the header before its first byte is written. NOT_FOUND/STALE_GENERATION otherwise,
// and rarely without need (a claim that is about to be refused).
absl::Status CheckStillOwned(Generation generation, const std::byte* part);
// The same, where nothing else would tell: the header is, to the last byte, the one that was read
// first. Its generation alone may also stand in the payload of a next owner of another shape.
absl::Status CheckStillOwned(const PartHeader& header, const Extent& extent, const std::byte* part);

}  // namespace moonpool::transport
