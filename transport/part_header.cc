#include "transport/part_header.h"

#include <atomic>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/status_macros.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

constexpr uint32_t kMagic = 0x4850504d;  // "MPPH"
constexpr uint16_t kLayoutVersion = 1;
constexpr size_t kHeaderChecksumAt = 56;
static_assert(kHeaderChecksumAt + 8 == kPartHeaderBytes);

std::atomic_ref<uint64_t> GenerationAt(std::byte* header) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(header + kGenerationAt));
}

absl::Status Damaged(absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch, what,
                   {.hint = "read another replica"});
}

absl::Status SupersededMeanwhile(Generation generation) {
  return MakeError(
      absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration,
      absl::StrCat("generation ", ToString(generation), " was superseded while it was read"),
      {.hint = "locate the key again"});
}

absl::Status NotTheOwner(Generation wanted, Generation found) {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration,
                   absl::StrCat("generation ", ToString(wanted), " no longer owns the extent (",
                                ToString(found), " does)"),
                   {.hint = "locate the key again"});
}

}  // namespace

uint64_t KeyFingerprint(absl::string_view name_space, absl::string_view key) {
  constexpr size_t kOrdinaryBytes = kMaxNamespaceBytes + 1 + kMaxKeyBytes;
  const size_t size = name_space.size() + 1 + key.size();
  if (size > kOrdinaryBytes) {
    return Checksum(absl::StrCat(name_space, absl::string_view("\0", 1), key));
  }
  char joined[kOrdinaryBytes];
  std::memcpy(joined, name_space.data(), name_space.size());
  joined[name_space.size()] = '\0';
  std::memcpy(joined + name_space.size() + 1, key.data(), key.size());
  return Checksum(absl::string_view(joined, size));
}

void EncodePartHeader(const PartHeader& header, std::byte* to) {
  std::byte bytes[kPartHeaderBytes] = {};
  StoreAs<uint32_t>(bytes, kMagic);
  StoreAs<uint16_t>(bytes + 4, kLayoutVersion);
  StoreAs<uint64_t>(bytes + kGenerationAt, header.generation.value);
  StoreAs<uint64_t>(bytes + 16, header.payload_bytes);
  StoreAs<uint64_t>(bytes + 24, header.payload_checksum);
  StoreAs<uint64_t>(bytes + 32, header.object_bytes);
  StoreAs<uint64_t>(bytes + 40, header.key_fingerprint);
  StoreAs<uint16_t>(bytes + 48, header.part_index);
  StoreAs<uint16_t>(bytes + 50, header.part_count);
  StoreAs<uint64_t>(bytes + kHeaderChecksumAt,
                    Checksum(absl::MakeConstSpan(bytes, kHeaderChecksumAt)));
  constexpr size_t kRestAt = kGenerationAt + sizeof(uint64_t);
  std::memcpy(to, bytes, kGenerationAt);
  std::memcpy(to + kRestAt, bytes + kRestAt, kPartHeaderBytes - kRestAt);
  GenerationAt(to).store(header.generation.value, std::memory_order_release);
}

absl::StatusOr<PartHeader> DecodePartHeader(absl::Span<const std::byte> bytes) {
  if (bytes.size() < kPartHeaderBytes) return Damaged("part header is cut short");
  std::byte copy[kPartHeaderBytes];
  std::memcpy(copy, bytes.data(), sizeof(copy));
  if (LoadAs<uint32_t>(copy) != kMagic || LoadAs<uint16_t>(copy + 4) != kLayoutVersion) {
    return Damaged("no part header at this place");
  }
  const Generation generation{LoadAs<uint64_t>(copy + kGenerationAt)};
  if (generation == Generation{}) return Damaged("part is not sealed");
  if (LoadAs<uint64_t>(copy + kHeaderChecksumAt) !=
      Checksum(absl::MakeConstSpan(copy, kHeaderChecksumAt))) {
    return Damaged("part header does not match its checksum");
  }
  return PartHeader{.generation = generation,
                    .payload_bytes = LoadAs<uint64_t>(copy + 16),
                    .payload_checksum = LoadAs<uint64_t>(copy + 24),
                    .object_bytes = LoadAs<uint64_t>(copy + 32),
                    .key_fingerprint = LoadAs<uint64_t>(copy + 40),
                    .part_index = LoadAs<uint16_t>(copy + 48),
                    .part_count = LoadAs<uint16_t>(copy + 50)};
}

absl::StatusOr<PartHeader> CheckPartHeader(Generation generation, const Extent& extent,
                                           absl::Span<const std::byte> bytes) {
  // Between two owners the generation is 0 and the rest still the old one's: that is no damage.
  if (bytes.size() >= kPartHeaderBytes) {
    const Generation found{LoadAs<uint64_t>(bytes.data() + kGenerationAt)};
    if (found == Generation{}) return NotTheOwner(generation, found);
  }
  ASSIGN_OR_RETURN(const PartHeader header, DecodePartHeader(bytes));
  if (GuardIsOn(Guard::kReadIdentity) && header.generation != generation) {
    return NotTheOwner(generation, header.generation);
  }
  if (header.payload_bytes != extent.payload_bytes()) {
    return Damaged(absl::StrCat("part holds ", header.payload_bytes, " bytes, its extent ",
                                extent.payload_bytes()));
  }
  return header;
}

absl::Status CheckPayload(const PartHeader& header, uint64_t payload_checksum) {
  if (!GuardIsOn(Guard::kChecksum)) return absl::OkStatus();
  if (header.payload_checksum == payload_checksum) return absl::OkStatus();
  return Damaged("payload does not match its checksum");
}

void InvalidatePartHeader(std::byte* to) { GenerationAt(to).store(0, std::memory_order_seq_cst); }

void RestorePartHeader(Generation generation, std::byte* to) {
  GenerationAt(to).store(generation.value, std::memory_order_release);
}

Generation LoadPartGeneration(const std::byte* from) {
  // atomic_ref has no const form in C++20; a load of 8 aligned bytes writes nothing.
  return Generation{GenerationAt(const_cast<std::byte*>(from)).load(std::memory_order_seq_cst)};
}

absl::Status CheckStillOwned(Generation generation, const std::byte* part) {
  // What was copied was loaded before the generation is.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (LoadPartGeneration(part) == generation) return absl::OkStatus();
  return SupersededMeanwhile(generation);
}

absl::Status CheckStillOwned(const PartHeader& header, const Extent& extent,
                             const std::byte* part) {
  RETURN_IF_ERROR(CheckStillOwned(header.generation, part));
  const absl::StatusOr<PartHeader> now =
      CheckPartHeader(header.generation, extent, absl::MakeConstSpan(part, kPartHeaderBytes));
  if (now.ok() && *now == header) return absl::OkStatus();
  return SupersededMeanwhile(header.generation);
}

}  // namespace moonpool::transport
