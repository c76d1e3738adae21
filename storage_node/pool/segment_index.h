// One segment of the pool: who owns which of its bytes, by which rules.
//
// Newest owns (R2): a claim supersedes every older owner of any of its bytes, whatever their
// shapes; their records go and their headers are invalidated before the new owner's first byte.
// A copy of a part comes into bytes that newer generations than the part's may have owned, and may
// still try to write: among the owners it counts as what it was claimed under, a newer grant, and
// everywhere else as its part's generation. After a restart that order is forgotten, and not
// needed: all that was granted before it is refused (the floor).
// Sealed is the point of no loss (R3): the record is in the journal and in memory before Seal
// answers, and it is out of the journal before the next owner may write. Pinned stays (R8): bytes
// that a view or a mapped writer uses get no other owner, over a restart of the node too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "storage_node/pool/freed_generations.h"
#include "storage_node/pool/namespace_table.h"
#include "storage_node/pool/owner_map.h"
#include "storage_node/pool/seal_journal.h"
#include "storage_node/pool/segment_claim.h"
#include "storage_node/pool/viewer_set.h"
#include "transport/ops.h"
#include "transport/target.h"

namespace moonpool::storage_node {

// Memory of one segment, borrowed. `base` is aligned to 64.
struct PoolSegment {
  SegmentId id;
  std::string medium = "dram";
  std::byte* base = nullptr;
  uint64_t capacity_bytes = 0;
};

// What became of an entry that an earlier life of the node has written down.
enum class RestoreOutcome {
  kKept,
  kMalformed,   // it never was like this: a place, size, name or term that is impossible here
  kNotInPool,   // the pool has no part header that fits: other bytes, or the seal was not completed
  kSuperseded,  // another entry has some of its bytes, and is newer
};

// Where an inventory goes on. Default: at the start.
struct InventoryCursor {
  size_t segment_index = 0;
  uint64_t offset = 0;
};

struct SegmentStats {
  uint64_t sealed_parts = 0;
  uint64_t sealed_bytes = 0;   // extents: headers and payloads
  uint64_t writing_parts = 0;  // claimed and not sealed, also when the claim was given up
  uint64_t pinned_parts = 0;   // freed, and still in use
  uint64_t live_claims = 0;
  uint64_t superseded_parts = 0;  // sealed ones, since the start
  uint64_t freed_parts = 0;       // since the start
  uint64_t damaged_parts = 0;     // found so, and forgotten, since the start
};

// A sealed part as it lies in memory. Its bytes may get another owner at any time; `order` tells
// whether they did, since no two owners of the same bytes have the same.
struct PartAtRest {
  Generation order;
  transport::ConstBytes bytes;  // header and payload
};

// Thread-safe: one lock per segment, held for O(log n) work and the end of a writer's step.
class SegmentIndex {
 public:
  // What all segments of a pool share; borrowed.
  struct Shared {
    ViewerSet& viewers;
    SealJournal& journal;
    const std::atomic<uint32_t>& newest_term;
    uint64_t parts_max;  // of this segment
  };
  SegmentIndex(PoolSegment segment, Shared shared)
      : segment_(std::move(segment)), shared_(shared) {}
  ~SegmentIndex();

  const PoolSegment& segment() const { return segment_; }

  // As in transport/target.h.
  absl::StatusOr<transport::ConstBytes> OpenRead(Generation generation, const Extent& extent) const;
  absl::StatusOr<std::shared_ptr<transport::WriteClaim>> Claim(Generation generation,
                                                               const Extent& extent,
                                                               transport::WriterKind kind);
  // True: sealed by this call. False: it was sealed with the same content before. `claim`: the
  // generation that the bytes were claimed under: the record's own, or a newer one for a copy.
  absl::StatusOr<bool> Seal(const transport::SealRecord& record, Generation claim);

  // Forgets what these generations own here, and the copies claimed under them; the number of
  // parts. Bytes that are pinned stay taken until they are released.
  uint64_t Free(absl::Span<const Generation> generations, const GrantWindow& window);

  // Before anything is served: takes over what an earlier life has written down. Where entries
  // overlap, which only damage brings about, the newest stays and the journal loses the others.
  // Anything but kKept is for the caller to erase.
  RestoreOutcome Restore(const transport::SealRecord& record, JournalEntry entry);
  RestoreOutcome RestoreTaken(Generation generation, const Extent& extent, JournalEntry entry);
  // Refuses all claims until it is told up to which generation none may be written here.
  void AwaitFloor();
  void SetFloor(Generation newest);
  // See ExtentIndex.
  void WillStop();

  // Appends records at or after `offset`, at most until `records` has `records_max`, and looks at a
  // bounded number of owners. Returns where to go on; nullopt: there is nothing more. A record that
  // is there all the while is seen exactly once.
  std::optional<uint64_t> AppendInventory(uint64_t offset, size_t records_max,
                                          std::vector<transport::SealRecord>& records) const;
  // nullopt when the generation has no sealed part exactly there.
  std::optional<transport::SealRecord> RecordOf(Generation generation, const Extent& extent) const;

  // To look for damage without the lock: nullopt when the part is not there.
  std::optional<PartAtRest> OpenAtRest(Generation generation, const Extent& extent) const;
  // Forgets the part, as Free does, if it is the one that was opened and its header is not what it
  // should be, or its payload, as the caller has found. False: neither, or it is gone.
  bool DropIfDamaged(const transport::SealRecord& record, Generation order, bool is_payload_whole);

  SegmentStats stats() const;

  // A claim is being destroyed.
  void EndClaim(SegmentClaim& claim);

 private:
  absl::Status CheckExtent(const Extent& extent) const;
  absl::Status CheckTerm(Generation generation) const;
  // Not older than the term and the open grants, and not freed.
  absl::Status CheckLiveLocked(Generation generation) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status CheckOlderOwners(Generation generation, const Extent& extent,
                                const Owners& owners) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeFromOwnersLocked(const Owners& owners) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<transport::WriteClaim>> NewClaimLocked(Owner& owner,
                                                                        transport::WriterKind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for a restored entry; false when something newer is there.
  bool TakeFromOlderLocked(Generation generation, const Extent& extent, bool is_sealed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Owner*> FindSealableLocked(const transport::SealRecord& record, Generation claim)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DescribeOwnerLocked(const transport::SealRecord& record, Owner& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeOwnerLocked(Owner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseLocked(Owner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  transport::SealRecord RecordLocked(const Owner& owner) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Counts the owner into (+1) or out of (-1) the stats of its state.
  void CountLocked(const Owner& owner, int sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::byte* At(uint64_t offset) const { return segment_.base + offset; }

  const PoolSegment segment_;
  const Shared shared_;

  mutable absl::Mutex mutex_;
  OwnerMap owners_ ABSL_GUARDED_BY(mutex_);
  NamespaceTable namespaces_ ABSL_GUARDED_BY(mutex_);
  SegmentStats stats_ ABSL_GUARDED_BY(mutex_);
  FreedGenerations freed_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace moonpool::storage_node
