// A table of records in memory that outlives the process: what is sealed in a pool, and which of
// its bytes are in use otherwise. Changed in place, so that it needs no compaction and is never
// larger than what it was at the fullest.
//
//   ASSIGN_OR_RETURN(RecordTable table, RecordTable::Open(memory, identity));
//   for (JournalEntry entry : table.TakeFound()) { ... table.Read(entry) ... }
//   ASSIGN_OR_RETURN(JournalEntry entry, table.Append(record));
//   table.Erase(entry);
//
// The layout, and why no moment of death leaves half a record, is in record_format.h. Whatever the
// bytes are, nothing outside of them is touched, and one bad record costs no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "storage_node/journal/record_format.h"
#include "storage_node/pool/seal_journal.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

// Where a table lies; borrowed. Mapped files are made elsewhere (storage_node/memory).
struct TableMemory {
  absl::Span<std::byte> bytes;  // as large as it may ever become; aligned to a cell
  size_t ready_bytes = 0;       // of these may be touched now; a new table's are zero
  // Makes at least so many ready, zero, and says how many. RESOURCE_EXHAUSTED: there is no room.
  std::function<absl::StatusOr<size_t>(size_t)> make_ready;
};

// What a table belongs to, as fingerprints. For anything else it means nothing.
struct TableIdentity {
  uint64_t boot = 0;      // of the kernel, since no memory outlives it
  uint64_t file = 0;      // that holds the bytes, so that a copy is not taken for it
  uint64_t segments = 0;  // their media and sizes
  bool operator==(const TableIdentity&) const = default;
};

struct TableRecord {
  bool is_sealed = false;  // false: taken bytes, of which only generation and extent are told
  transport::SealRecord record;
};

// Bytes for records of this many parts, with the longest names. Address space, not memory.
size_t TableBytesMax(uint64_t parts_max);
size_t TableBytesMin();

// Movable, not thread-safe.
class RecordTable {
 public:
  // A new one, empty, over whatever is there.
  static absl::StatusOr<RecordTable> Create(TableMemory memory, const TableIdentity& identity,
                                            Incarnation incarnation);
  // The one that is there. FAILED_PRECONDITION: there is none that fits; the message says why.
  static absl::StatusOr<RecordTable> Open(TableMemory memory, const TableIdentity& identity);

  Incarnation incarnation() const { return incarnation_; }
  Term newest_term() const { return newest_term_; }
  // Entries that stood there when it was opened, in no order.
  std::vector<JournalEntry> TakeFound() { return std::move(found_); }
  // Records that were not whole then. They are gone.
  uint64_t damaged() const { return damaged_; }

  // nullopt: it is not whole (any more).
  std::optional<TableRecord> Read(JournalEntry entry) const;

  // As in SealJournal. RESOURCE_EXHAUSTED: there is no room for more; nothing has changed.
  absl::StatusOr<JournalEntry> Append(const transport::SealRecord& record);
  absl::StatusOr<JournalEntry> AppendTaken(Generation generation, const Extent& extent);
  void Demote(JournalEntry entry);
  void Erase(JournalEntry entry);
  JournalRoom Room();
  void NoteTerm(Term term);

  // In use for records, their text included.
  uint64_t used_cells() const { return end_ - kHeaderCells - unused_.size(); }
  size_t ready_bytes() const { return memory_.ready_bytes; }

 private:
  using Cell = uint32_t;
  explicit RecordTable(TableMemory memory) : memory_(std::move(memory)) {}

  void Scan();
  // The text of a head when all of its cells are there.
  bool ReadText(const HeadBody& head, std::string& text, std::vector<Cell>* cells) const;
  bool IsWhole(Cell cell, HeadBody& head, std::string& text, std::vector<Cell>* cells) const;
  absl::StatusOr<std::vector<Cell>> Take(size_t count);
  absl::Status MakeReady(size_t end);
  absl::StatusOr<JournalEntry> Write(CellKind kind, HeadBody head, absl::string_view text);
  void FreeText(const HeadBody& head);

  uint64_t LoadWord(Cell cell) const;
  void StoreWord(Cell cell, uint64_t word);
  HeadBody LoadHead(Cell cell) const;
  std::byte* At(Cell cell) const { return memory_.bytes.data() + size_t{cell} * kCellBytes; }
  Cell ready_cells() const { return static_cast<Cell>(memory_.ready_bytes / kCellBytes); }

  TableMemory memory_;
  Incarnation incarnation_;
  Term newest_term_;
  Cell end_ = kHeaderCells;   // cells from here on were never used
  std::vector<Cell> unused_;  // below it
  uint64_t entries_ = 0;
  absl::Status stuck_;  // why the last attempt to grow failed
  std::vector<JournalEntry> found_;
  uint64_t damaged_ = 0;
};

}  // namespace moonpool::storage_node
