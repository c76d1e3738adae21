#include "storage_node/pool/extent_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::storage_node {
namespace {

absl::Status BadRecord(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat("seal refused: ", what));
}

// What can be said of a record without looking at the pool.
absl::Status CheckRecord(const transport::SealRecord& record) {
  RETURN_IF_ERROR(transport::Validate(record));
  const uint64_t payload_bytes = record.extent.payload_bytes();
  if (payload_bytes > record.object_bytes ||
      (record.part_count == 1 && payload_bytes != record.object_bytes)) {
    return BadRecord("the sizes of part and object do not fit together");
  }
  return absl::OkStatus();
}

}  // namespace

ExtentIndex::ExtentIndex(std::vector<PoolSegment> segments, SealJournal& journal,
                         ExtentIndexOptions options)
    : journal_(journal),
      seal_reports_(options.seal_reports_max),
      lost_parts_(options.lost_parts_max),
      doubted_parts_(options.doubted_parts_max) {
  const SegmentIndex::Shared shared{.viewers = viewers_,
                                    .journal = journal,
                                    .newest_term = newest_term_,
                                    .parts_max = options.parts_per_segment_max};
  for (PoolSegment& segment : segments) {
    MP_CHECK(segment.id.value == segments_.size(), "segments are numbered from 0",
             segment.id.value);
    MP_CHECK(reinterpret_cast<uintptr_t>(segment.base) % 64 == 0, "segment memory is unaligned");
    segments_.push_back(std::make_unique<SegmentIndex>(std::move(segment), shared));
  }
}

SegmentIndex* ExtentIndex::Find(SegmentId id) const {
  return id.value < segments_.size() ? segments_[id.value].get() : nullptr;
}

absl::StatusOr<transport::ConstBytes> ExtentIndex::OpenRead(Generation generation,
                                                            const Extent& extent) const {
  const SegmentIndex* segment = Find(extent.segment);
  if (segment == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration,
                     absl::StrCat("there is no ", ToString(extent)),
                     {.hint = "locate the key again"});
  }
  return segment->OpenRead(generation, extent);
}

absl::StatusOr<std::shared_ptr<transport::WriteClaim>> ExtentIndex::Claim(
    Generation generation, const Extent& extent, transport::WriterKind kind) {
  SegmentIndex* segment = Find(extent.segment);
  if (segment == nullptr) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat("there is no segment ", extent.segment.value));
  }
  if (generation == Generation{}) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "generation 0 owns nothing");
  }
  return segment->Claim(generation, extent, kind);
}

absl::Status ExtentIndex::Seal(const transport::SealRecord& record) {
  return SealUnder(record.generation, record);
}

absl::Status ExtentIndex::SealCopy(const transport::SealRecord& record, Generation claim) {
  if (claim <= record.generation) return BadRecord("a copy is claimed under what is newer");
  return SealUnder(claim, record);
}

std::optional<transport::SealRecord> ExtentIndex::FindRecord(Generation generation,
                                                             const Extent& extent) const {
  const SegmentIndex* segment = Find(extent.segment);
  return segment == nullptr ? std::nullopt : segment->RecordOf(generation, extent);
}

absl::Status ExtentIndex::SealUnder(Generation claim, const transport::SealRecord& record) {
  RETURN_IF_ERROR(CheckRecord(record));
  SegmentIndex* segment = Find(record.extent.segment);
  if (segment == nullptr) return BadRecord("there is no such segment");
  ASSIGN_OR_RETURN(const bool is_new, segment->Seal(record, claim));
  if (is_new) seal_reports_.Add({record.generation, record.extent});
  return absl::OkStatus();
}

uint64_t ExtentIndex::Free(absl::Span<const Generation> generations, const GrantWindow& window) {
  uint64_t freed = 0;
  for (const auto& segment : segments_) freed += segment->Free(generations, window);
  return freed;
}

RestoreOutcome ExtentIndex::Restore(const transport::SealRecord& record, JournalEntry entry) {
  SegmentIndex* segment = Find(record.extent.segment);
  if (segment == nullptr || !CheckRecord(record).ok()) return RestoreOutcome::kMalformed;
  return segment->Restore(record, entry);
}

RestoreOutcome ExtentIndex::RestoreTaken(Generation generation, const Extent& extent,
                                         JournalEntry entry) {
  SegmentIndex* segment = Find(extent.segment);
  if (segment == nullptr) return RestoreOutcome::kMalformed;
  return segment->RestoreTaken(generation, extent, entry);
}

void ExtentIndex::AwaitFloor() {
  for (const auto& segment : segments_) segment->AwaitFloor();
}

void ExtentIndex::WillStop() {
  for (const auto& segment : segments_) segment->WillStop();
}

void ExtentIndex::SetFloor(Generation newest) {
  for (const auto& segment : segments_) segment->SetFloor(newest);
}

void ExtentIndex::NoteTerm(Term term) {
  journal_.NoteTerm(term);  // first: nothing is done in a term that the next life would not know
  uint32_t newest = newest_term_.load(std::memory_order_relaxed);
  while (newest < term.value &&
         !newest_term_.compare_exchange_weak(newest, term.value, std::memory_order_acq_rel)) {
  }
}

InventorySlice ExtentIndex::NextInventory(const InventoryCursor& cursor, size_t records_max) const {
  InventorySlice slice;
  slice.next = cursor;
  while (slice.next.segment_index < segments_.size()) {
    const std::optional<uint64_t> offset = segments_[slice.next.segment_index]->AppendInventory(
        slice.next.offset, records_max, slice.records);
    if (offset.has_value()) {
      slice.next.offset = *offset;
      return slice;
    }
    slice.next = {.segment_index = slice.next.segment_index + 1};
  }
  slice.is_last = true;
  return slice;
}

std::optional<PartAtRest> ExtentIndex::OpenAtRest(Generation generation,
                                                  const Extent& extent) const {
  const SegmentIndex* segment = Find(extent.segment);
  return segment == nullptr ? std::nullopt : segment->OpenAtRest(generation, extent);
}

void ExtentIndex::Doubt(Generation generation, const Extent& extent) {
  if (OpenAtRest(generation, extent).has_value()) doubted_parts_.Add({generation, extent});
}

bool ExtentIndex::DropIfDamaged(const transport::SealRecord& record, Generation order,
                                bool is_payload_whole) {
  SegmentIndex* segment = Find(record.extent.segment);
  if (segment == nullptr || !segment->DropIfDamaged(record, order, is_payload_whole)) return false;
  lost_parts_.Add({record.generation, record.extent});
  return true;
}

std::vector<transport::SealRecord> ExtentIndex::TakeSealReports(size_t records_max) {
  std::vector<transport::SealRecord> records;
  for (const PartAt& sealed : seal_reports_.Take(records_max)) {
    std::optional<transport::SealRecord> record = FindRecord(sealed.generation, sealed.extent);
    if (record.has_value()) records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace moonpool::storage_node
