// A small pool in ordinary memory, and the verbs of a writer.
//
//   TestPool pool;
//   pool.Put(Gen(1, 1), At(0, 192), "a");
//   EXPECT_TRUE(pool.IsReadable(Gen(1, 1), At(0, 192)));
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checksum.h"
#include "common/status_macros.h"
#include "storage_node/pool/extent_index.h"
#include "transport/ops.h"
#include "transport/target.h"

namespace moonpool::storage_node {

inline Generation Gen(uint32_t term, uint32_t counter) {
  return Generation::Of(Term{term}, counter);
}
inline Extent At(uint64_t offset, uint64_t length, uint32_t segment = 0) {
  return Extent{SegmentId{segment}, offset, length};
}

// The record of an object of one part.
inline transport::SealRecord RecordFor(Generation generation, const Extent& extent,
                                       absl::string_view key) {
  return transport::SealRecord{.generation = generation,
                               .name_space = "default",
                               .key = std::string(key),
                               .parent = {},
                               .extent = extent,
                               .object_bytes = extent.payload_bytes()};
}

// Pins one generation at a time.
class FakeViewer final : public transport::ViewPins {
 public:
  void Hold(Generation generation) { held_ = generation.value; }
  void Release() { held_ = 0; }
  bool Holds(Generation generation) const override { return held_ == generation.value; }

 private:
  std::atomic<uint64_t> held_{0};
};

class TestPool {
 public:
  static constexpr uint64_t kSegmentBytes = 64 * 1024;

  explicit TestPool(size_t segments = 1, ExtentIndexOptions options = {},
                    SealJournal* journal = nullptr)
      : index_(MakeSegments(segments), journal == nullptr ? null_journal_ : *journal, options) {}

  ExtentIndex& index() { return index_; }
  std::byte* base(uint32_t segment = 0) { return bytes_[segment]->data; }

  absl::StatusOr<std::shared_ptr<transport::WriteClaim>> Claim(Generation generation,
                                                               const Extent& extent) {
    return index_.Claim(generation, extent, transport::WriterKind::kStepwise);
  }

  // Claim, fill with `fill`, seal.
  absl::Status Put(Generation generation, const Extent& extent, absl::string_view key,
                   std::byte fill = std::byte{0x5a}) {
    return PutUnder(generation, RecordFor(generation, extent, key), fill);
  }
  // The same as a copier does it: claimed under a newer generation than the part's.
  absl::Status PutCopy(Generation claim, Generation generation, const Extent& extent,
                       absl::string_view key, std::byte fill = std::byte{0x5a}) {
    return PutUnder(claim, RecordFor(generation, extent, key), fill);
  }

  bool IsReadable(Generation generation, const Extent& extent) {
    const auto bytes = index_.OpenRead(generation, extent);
    if (!bytes.ok()) return false;
    const auto header = transport::DecodePartHeader(*bytes);
    return header.ok() && header->generation == generation &&
           header->payload_checksum == Checksum(bytes->subspan(kPartHeaderBytes));
  }

  std::vector<transport::SealRecord> Inventory(size_t records_per_slice = 1000) {
    std::vector<transport::SealRecord> records;
    InventoryCursor cursor;
    for (bool is_last = false; !is_last;) {
      InventorySlice slice = index_.NextInventory(cursor, records_per_slice);
      for (auto& record : slice.records) records.push_back(std::move(record));
      cursor = slice.next;
      is_last = slice.is_last;
    }
    return records;
  }

 private:
  absl::Status PutUnder(Generation claimed_by, transport::SealRecord record, std::byte fill) {
    ASSIGN_OR_RETURN(const auto claim, Claim(claimed_by, record.extent));
    if (!claim->BeginStep()) return absl::AbortedError("superseded");
    std::memset(claim->payload().data(), static_cast<int>(fill), claim->payload().size());
    record.payload_checksum = Checksum(claim->payload());  // in the step: the bytes are ours
    claim->EndStep();
    claim->SetWritten();
    if (claimed_by == record.generation) return index_.Seal(record);
    return index_.SealCopy(record, claimed_by);
  }

  struct Bytes {
    alignas(64) std::byte data[kSegmentBytes] = {};
  };

  std::vector<PoolSegment> MakeSegments(size_t count) {
    std::vector<PoolSegment> segments;
    for (uint32_t i = 0; i < count; ++i) {
      bytes_.push_back(std::make_unique<Bytes>());
      segments.push_back(
          {.id = SegmentId{i}, .base = bytes_.back()->data, .capacity_bytes = kSegmentBytes});
    }
    return segments;
  }

  std::vector<std::unique_ptr<Bytes>> bytes_;
  NullJournal null_journal_;
  ExtentIndex index_;
};

}  // namespace moonpool::storage_node
