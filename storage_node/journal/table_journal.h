// The journal of a pool whose memory outlives the process: a record table under a lock.
//
//   TableJournal journal(std::move(table));
//   ExtentIndex index(segments, journal, options);
//   RestoreReport report = RestoreIndex(journal, index);   // before anything is served
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "common/types.h"
#include "storage_node/journal/record_table.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/seal_journal.h"

namespace moonpool::storage_node {

// Thread-safe. Its lock is taken under that of a segment, and none under it.
class TableJournal final : public SealJournal {
 public:
  explicit TableJournal(RecordTable table) : table_(std::move(table)) {}

  absl::StatusOr<JournalEntry> Append(const transport::SealRecord& record) override;
  absl::StatusOr<JournalEntry> AppendTaken(Generation generation, const Extent& extent) override;
  void Demote(JournalEntry entry) override;
  void Erase(JournalEntry entry) override;
  JournalRoom Room() override;
  void NoteTerm(Term term) override;

  Incarnation incarnation() const;
  Term newest_term() const;
  std::vector<JournalEntry> TakeFound();
  uint64_t damaged() const;
  std::optional<TableRecord> Read(JournalEntry entry) const;

 private:
  mutable absl::Mutex mutex_;
  RecordTable table_ ABSL_GUARDED_BY(mutex_);
};

struct RestoreReport {
  uint64_t parts = 0;        // sealed, and there again
  uint64_t bytes = 0;        // of these, headers and payloads
  uint64_t taken_parts = 0;  // bytes that a process of the earlier life may still use
  uint64_t damaged = 0;      // what was written down is not whole
  uint64_t malformed = 0;    // it is whole, and impossible
  uint64_t not_in_pool = 0;  // the pool has no such part
  uint64_t superseded = 0;   // a newer one has its bytes
  // Of the taken parts.
  absl::flat_hash_set<Generation> taken;
};

// Fills an empty index from what its journal has found, and makes it wait for a master's word
// before it takes claims. Entries that are of no use are erased. What the payloads hold is not
// looked at: their readers verify.
RestoreReport RestoreIndex(TableJournal& journal, ExtentIndex& index);

}  // namespace moonpool::storage_node
