// The bytes of a record table: cells of 64, all numbers little-endian and in their natural place.
//
// Cells 0 and 1 are the table's header:
//    0  u64  magic "MPINDEX1"; stored last
//    8  u32  layout version (1), 12 u32 bytes of a cell (64)
//   16  u64  incarnation of the pool
//   24  u64  fingerprint of the kernel's boot: no memory outlives it
//   32  u64  fingerprint of the file that holds the bytes
//   40  u64  fingerprint of the segments
//   48  u64  XXH3-64 of bytes 0 to 47
//   64  u64  newest term that a master has told: the term, and its complement above; changed alone
//
// All others start with a word that says what they are, so that no key can pass for a record:
//    0  u8   kind: 0 none, 1 sealed part, 2 taken bytes, 3 text
// A head (kinds 1 and 2):
//    1       the low 56 bits of XXH3-64 of bytes 8 to 63 and, of a sealed part, its text
//    8  u64  generation
//   16  u64  offset, 24 u64 length of the extent
//   32  u64  bytes of the whole object
//   40  u64  XXH3-64 of the payload
//   48  u32  first text cell
//   52  u16  bytes of the key, 54 u16 of the parent
//   56  u16  index of this part, 58 u16 number of parts
//   60  u8   bytes of the namespace, 61 u8 index of the replica
//   62  u16  segment
// A text cell:
//    4  u32  next text cell
//    8       56 bytes of namespace, key, parent, one behind the other
//
// Of a record the text is written first, then bytes 8 to 63 of the head, and then its first word,
// in one store that makes it live. Erasing is one store of 0 to that word, and a sealed part
// becomes taken bytes by one store, too. A process that is killed has done a prefix of its stores
// in program order, which is the order in which the compiler was made to leave them (release) and
// in which the kernel keeps them, since the memory outlives the process: there is no power loss to
// reorder them, as a machine that fails loses the memory, too. So a record is there as a whole or
// not at all, and one whose checksum does not hold has been damaged since.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/types.h"

namespace moonpool::storage_node {

inline constexpr uint64_t kTableMagic = 0x3158'4544'4e49'504d;  // "MPINDEX1"
inline constexpr uint32_t kTableLayoutVersion = 1;

inline constexpr size_t kCellBytes = 64;
inline constexpr size_t kHeaderCells = 2;
inline constexpr size_t kTextBytesPerCell = kCellBytes - sizeof(uint64_t);
inline constexpr size_t kTextBytesMax = kMaxNamespaceBytes + 2 * kMaxKeyBytes;
inline constexpr size_t kTextCellsMax = (kTextBytesMax + kTextBytesPerCell - 1) / kTextBytesPerCell;
inline constexpr size_t kRecordCellsMax = 1 + kTextCellsMax;

enum class CellKind : uint8_t { kNone = 0, kSealed = 1, kTaken = 2, kText = 3 };

struct TableHeader {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t cell_bytes;
  uint64_t incarnation;
  uint64_t boot;
  uint64_t file;
  uint64_t segments;
  uint64_t checksum;
};
static_assert(sizeof(TableHeader) == 56);
inline constexpr size_t kHeaderChecksumAt = offsetof(TableHeader, checksum);
inline constexpr size_t kTermWordAt = kCellBytes;

// What stands behind the first word of a head.
struct HeadBody {
  uint64_t generation;
  uint64_t offset;
  uint64_t length;
  uint64_t object_bytes;
  uint64_t payload_checksum;
  uint32_t first_text;
  uint16_t key_bytes;
  uint16_t parent_bytes;
  uint16_t part_index;
  uint16_t part_count;
  uint8_t namespace_bytes;
  uint8_t replica;  // low half: its number; high half: how many there are to be
  uint16_t segment;

  size_t text_bytes() const { return size_t{namespace_bytes} + key_bytes + parent_bytes; }
};
static_assert(sizeof(HeadBody) == kCellBytes - sizeof(uint64_t));
static_assert(kMaxNamespaceBytes <= UINT8_MAX && kMaxKeyBytes <= UINT16_MAX);

}  // namespace moonpool::storage_node
