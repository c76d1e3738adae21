#include "storage_node/journal/table_journal.h"

#include <utility>

namespace moonpool::storage_node {

absl::StatusOr<JournalEntry> TableJournal::Append(const transport::SealRecord& record) {
  absl::MutexLock lock(&mutex_);
  return table_.Append(record);
}

absl::StatusOr<JournalEntry> TableJournal::AppendTaken(Generation generation,
                                                       const Extent& extent) {
  absl::MutexLock lock(&mutex_);
  return table_.AppendTaken(generation, extent);
}

void TableJournal::Demote(JournalEntry entry) {
  if (entry == kNoEntry) return;
  absl::MutexLock lock(&mutex_);
  table_.Demote(entry);
}

void TableJournal::Erase(JournalEntry entry) {
  if (entry == kNoEntry) return;
  absl::MutexLock lock(&mutex_);
  table_.Erase(entry);
}

JournalRoom TableJournal::Room() {
  absl::MutexLock lock(&mutex_);
  return table_.Room();
}

void TableJournal::NoteTerm(Term term) {
  absl::MutexLock lock(&mutex_);
  table_.NoteTerm(term);
}

Incarnation TableJournal::incarnation() const {
  absl::MutexLock lock(&mutex_);
  return table_.incarnation();
}

Term TableJournal::newest_term() const {
  absl::MutexLock lock(&mutex_);
  return table_.newest_term();
}

std::vector<JournalEntry> TableJournal::TakeFound() {
  absl::MutexLock lock(&mutex_);
  return table_.TakeFound();
}

uint64_t TableJournal::damaged() const {
  absl::MutexLock lock(&mutex_);
  return table_.damaged();
}

std::optional<TableRecord> TableJournal::Read(JournalEntry entry) const {
  absl::MutexLock lock(&mutex_);
  return table_.Read(entry);
}

RestoreReport RestoreIndex(TableJournal& journal, ExtentIndex& index) {
  RestoreReport report;
  report.damaged = journal.damaged();
  index.NoteTerm(journal.newest_term());
  const auto settle = [&](RestoreOutcome outcome, JournalEntry entry) {
    if (outcome == RestoreOutcome::kKept) return true;
    if (outcome == RestoreOutcome::kMalformed) ++report.malformed;
    if (outcome == RestoreOutcome::kNotInPool) ++report.not_in_pool;
    journal.Erase(entry);
    return false;
  };
  // Parts first: of one generation they stand, and the bytes they were written in do not.
  const std::vector<JournalEntry> found = journal.TakeFound();
  std::vector<std::pair<JournalEntry, transport::SealRecord>> taken;
  for (const JournalEntry entry : found) {
    std::optional<TableRecord> at = journal.Read(entry);
    if (!at.has_value()) continue;  // a newer one has its bytes, and has erased it
    if (at->is_sealed) {
      settle(index.Restore(at->record, entry), entry);
    } else {
      taken.emplace_back(entry, std::move(at->record));
    }
  }
  for (const auto& [entry, record] : taken) {
    const RestoreOutcome outcome = index.RestoreTaken(record.generation, record.extent, entry);
    if (settle(outcome, entry)) report.taken.insert(record.generation);
  }
  for (size_t i = 0; i < index.segment_count(); ++i) {
    const SegmentStats stats = index.stats(i);
    report.parts += stats.sealed_parts;
    report.bytes += stats.sealed_bytes;
    report.taken_parts += stats.pinned_parts;
  }
  report.superseded =
      found.size() - report.parts - report.taken_parts - report.malformed - report.not_in_pool;
  index.AwaitFloor();
  return report;
}

}  // namespace moonpool::storage_node
