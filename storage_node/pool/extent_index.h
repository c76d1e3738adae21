// The node's own index: which generation owns which bytes of which segment, and what is sealed
// there. The truth that the master's index is made from.
//
//   NullJournal journal;
//   ExtentIndex index(std::move(segments), journal, {});
//   ASSIGN_OR_RETURN(auto claim, index.Claim(generation, extent, WriterKind::kStepwise));
//   ... BeginStep, fill claim->payload(), EndStep; claim->SetWritten() ...
//   RETURN_IF_ERROR(index.Seal(record));
//
// Rules and locking are those of SegmentIndex (segment_index.h); this class finds the segment,
// keeps the newest term, and remembers what the master has to be told.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "storage_node/pool/doubted_parts.h"
#include "storage_node/pool/part_reports.h"
#include "storage_node/pool/seal_journal.h"
#include "storage_node/pool/segment_index.h"
#include "storage_node/pool/viewer_set.h"
#include "transport/ops.h"
#include "transport/target.h"

namespace moonpool::storage_node {

struct ExtentIndexOptions {
  // Owners per segment, sealed or not; a claim beyond is RESOURCE_EXHAUSTED/LIMIT_REACHED.
  uint64_t parts_per_segment_max = uint64_t{1} << 25;
  // Seals that wait to be reported; more of them cost a new session with the master.
  size_t seal_reports_max = size_t{1} << 16;
  // Likewise of lost parts.
  size_t lost_parts_max = size_t{1} << 12;
  // That readers doubt and nobody has looked at; few, since each new one is compared with all.
  size_t doubted_parts_max = 64;
};

struct InventorySlice {
  std::vector<transport::SealRecord> records;
  InventoryCursor next;
  bool is_last = false;
};

// Thread-safe; no call blocks on I/O. Borrows the segments' memory and the journal. All claims are
// destroyed, and all viewers detached, before it is.
class ExtentIndex {
 public:
  ExtentIndex(std::vector<PoolSegment> segments, SealJournal& journal, ExtentIndexOptions options);

  // As in transport/target.h.
  absl::StatusOr<transport::ConstBytes> OpenRead(Generation generation, const Extent& extent) const;
  absl::StatusOr<std::shared_ptr<transport::WriteClaim>> Claim(Generation generation,
                                                               const Extent& extent,
                                                               transport::WriterKind kind);
  absl::Status Seal(const transport::SealRecord& record);
  // Seals bytes claimed under `claim` as a copy of a part of an older generation. Whether they may
  // be had is judged by the claim alone: a node that was told to forget the part may get it again.
  absl::Status SealCopy(const transport::SealRecord& record, Generation claim);
  // What is sealed exactly there, as it is reported; nullopt: nothing of this generation.
  std::optional<transport::SealRecord> FindRecord(Generation generation,
                                                  const Extent& extent) const;
  void AttachViewer(const transport::ViewPins* viewer) { viewers_.Attach(viewer); }
  void DetachViewer(const transport::ViewPins* viewer) { viewers_.Detach(viewer); }

  // Forgets what these generations own, and the copies claimed under them, sealed or not, and
  // invalidates the headers; unknown ones are fine. Pinned bytes stay as they are, and taken, until
  // they are released. Returns the number of parts forgotten. None of them is written again, nor
  // anything below the window. The window is that of a master of the newest term: an older one
  // knows nothing of the grants of the next.
  uint64_t Free(absl::Span<const Generation> generations, const GrantWindow& window = {});

  // Before anything is served, after NoteTerm: takes over what an earlier life of this pool has
  // written down under `entry`. What is not kept is for the caller to erase.
  RestoreOutcome Restore(const transport::SealRecord& record, JournalEntry entry);
  RestoreOutcome RestoreTaken(Generation generation, const Extent& extent, JournalEntry entry);
  // Refuses all claims until SetFloor: what was granted to writers of the earlier life may have
  // been freed since, which nobody here remembers.
  void AwaitFloor();
  // A master says which generation is its newest: that and all older ones are refused from now on.
  // 0, from a master that does not say: none is. Without AwaitFloor before it, nothing.
  void SetFloor(Generation newest);

  // The data servers are about to stop. From now on nobody gets bytes, and what processes that have
  // them mapped may still be writing is not given up with their connections: they go on writing
  // after this process has ended, and the next one finds it in the journal.
  void WillStop();

  // Refuses generations of older terms from now on. The terms come from masters only, never from
  // writers: a leader grants nothing here before this node has answered it in its term, and a
  // garbled generation must not lock out everybody else.
  void NoteTerm(Term term);
  Term newest_term() const { return Term{newest_term_.load(std::memory_order_acquire)}; }

  // The sealed parts from the cursor on, at most `records_max` and perhaps fewer. Holds a
  // segment's lock only for a bounded number of parts.
  InventorySlice NextInventory(const InventoryCursor& cursor, size_t records_max) const;

  // How many parts there may be, as far as they can be written down.
  JournalRoom journal_room() { return journal_.Room(); }

  // What was sealed and not yet reported.
  PartReports& seal_reports() { return seal_reports_; }
  // The oldest unreported seals that still stand.
  std::vector<transport::SealRecord> TakeSealReports(size_t records_max);

  // As in SegmentIndex. A part that is dropped is among the lost ones.
  std::optional<PartAtRest> OpenAtRest(Generation generation, const Extent& extent) const;
  bool DropIfDamaged(const transport::SealRecord& record, Generation order, bool is_payload_whole);
  // A reader found the part damaged. It waits to be looked at, if it is sealed here.
  void Doubt(Generation generation, const Extent& extent);
  DoubtedParts& doubted_parts() { return doubted_parts_; }
  // What was sealed, is no more, and the master has not been told.
  PartReports& lost_parts() { return lost_parts_; }

  size_t segment_count() const { return segments_.size(); }
  const PoolSegment& segment(size_t index) const { return segments_[index]->segment(); }
  SegmentStats stats(size_t index) const { return segments_[index]->stats(); }

 private:
  SegmentIndex* Find(SegmentId id) const;
  absl::Status SealUnder(Generation claim, const transport::SealRecord& record);

  ViewerSet viewers_;
  SealJournal& journal_;
  std::atomic<uint32_t> newest_term_{0};
  PartReports seal_reports_;
  PartReports lost_parts_;
  DoubtedParts doubted_parts_;
  std::vector<std::unique_ptr<SegmentIndex>> segments_;  // the position is the id
};

}  // namespace moonpool::storage_node
