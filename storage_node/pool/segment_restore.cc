// How a segment's index takes over what an earlier life of the node has written down.
#include <cstring>

#include "absl/synchronization/mutex.h"
#include "common/guard.h"
#include "storage_node/pool/segment_index.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

// The header that belongs to the record, perhaps invalidated. An entry leaves the journal before
// the next owner may write, so while it stands, a header that is whole but for its generation was
// invalidated by somebody who then died: about to take the bytes, or to find them pinned. In both
// cases they are still this part's.
bool MakeHeaderWhole(const transport::SealRecord& record, std::byte* at) {
  alignas(8) std::byte expected[kPartHeaderBytes];
  transport::EncodePartHeader(transport::HeaderOf(record), expected);
  const Generation found = transport::LoadPartGeneration(at);
  if (found != record.generation && found != Generation{}) return false;
  const size_t after = transport::kGenerationAt + sizeof(uint64_t);
  const bool is_same = std::memcmp(at, expected, transport::kGenerationAt) == 0 &&
                       std::memcmp(at + after, expected + after, kPartHeaderBytes - after) == 0;
  if (is_same && found == Generation{}) transport::RestorePartHeader(record.generation, at);
  return is_same;
}

}  // namespace

bool SegmentIndex::TakeFromOlderLocked(Generation generation, const Extent& extent,
                                       bool is_sealed) {
  const Owners others = owners_.Overlapping(extent.offset, extent.end());
  for (const Owner* owner : others) {
    // Of one generation the part stands: it was sealed, and the entry of its writer not erased yet.
    const bool is_older =
        owner->generation < generation ||
        (owner->generation == generation && is_sealed && owner->state == OwnerState::kForgotten);
    if (!is_older) return false;
  }
  for (Owner* owner : others) EraseLocked(*owner);
  return true;
}

RestoreOutcome SegmentIndex::Restore(const transport::SealRecord& record, JournalEntry entry) {
  if (!CheckExtent(record.extent).ok()) return RestoreOutcome::kMalformed;
  if (record.generation.term() > Term{shared_.newest_term.load(std::memory_order_acquire)}) {
    return RestoreOutcome::kMalformed;  // granted in a term that this node never heard of
  }
  absl::MutexLock lock(&mutex_);
  if (GuardIsOn(Guard::kRecordInPool) && !MakeHeaderWhole(record, At(record.extent.offset))) {
    return RestoreOutcome::kNotInPool;
  }
  if (!TakeFromOlderLocked(record.generation, record.extent, /*is_sealed=*/true)) {
    return RestoreOutcome::kSuperseded;
  }
  Owner& owner = owners_.Insert(record.generation, record.extent.offset, record.extent.length);
  CountLocked(owner, +1);
  owner.entry = entry;
  DescribeOwnerLocked(record, owner);
  return RestoreOutcome::kKept;
}

RestoreOutcome SegmentIndex::RestoreTaken(Generation generation, const Extent& extent,
                                          JournalEntry entry) {
  if (generation == Generation{} || !CheckExtent(extent).ok()) return RestoreOutcome::kMalformed;
  absl::MutexLock lock(&mutex_);
  if (!TakeFromOlderLocked(generation, extent, /*is_sealed=*/false)) {
    return RestoreOutcome::kSuperseded;
  }
  Owner& owner = owners_.Insert(generation, extent.offset, extent.length);
  owner.entry = entry;
  owners_.Forget(owner);
  CountLocked(owner, +1);
  return RestoreOutcome::kKept;
}

void SegmentIndex::AwaitFloor() {
  if (!GuardIsOn(Guard::kFloor)) return;
  absl::MutexLock lock(&mutex_);
  freed_.RefuseAll();
}

void SegmentIndex::SetFloor(Generation newest) {
  absl::MutexLock lock(&mutex_);
  freed_.RaiseAbove(newest);
}

}  // namespace moonpool::storage_node
