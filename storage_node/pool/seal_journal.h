// Where a segment's index writes down what has to survive the process: sealed parts, and bytes that
// are in use without one.
//
//   ASSIGN_OR_RETURN(owner.entry, journal.Append(record));   // sealed: it survives from here on
//   journal.Erase(owner.entry);                              // before the next owner's first byte
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/types.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

// Names an entry until it is erased. The default names none.
struct JournalEntry {
  uint32_t value = 0;
  auto operator<=>(const JournalEntry&) const = default;
};
inline constexpr JournalEntry kNoEntry{};

struct JournalRoom {
  // So many parts fit, those that are there included, unless their names become longer.
  uint64_t parts_max = UINT64_MAX;
  absl::Status why;  // it cannot grow now; OK: nothing is known to stop it
};

// Called under the lock of the segment concerned, so that the order of the calls is the order of
// what happened to the bytes. Must not call back, and waits for nothing slower than memory.
// Thread-safe: segments have locks of their own.
class SealJournal {
 public:
  virtual ~SealJournal() = default;
  // A part is sealed. An error refuses the seal.
  virtual absl::StatusOr<JournalEntry> Append(const transport::SealRecord& record) = 0;
  // Bytes that nobody else may have, though there is no object: a process that cannot be stopped
  // writes there. An error refuses the claim.
  virtual absl::StatusOr<JournalEntry> AppendTaken(Generation generation, const Extent& extent) = 0;
  // The part is gone, and a view still uses its bytes: the entry becomes one of taken bytes. Cannot
  // fail; neither can Erase. Both do nothing to kNoEntry.
  virtual void Demote(JournalEntry entry) = 0;
  virtual void Erase(JournalEntry entry) = 0;
  // Tries again to grow where that failed before. Not under the lock of a segment.
  virtual JournalRoom Room() { return {}; }
  // A master of this term has been heard. Never falls.
  virtual void NoteTerm(Term term) = 0;
};

// Forgets everything: the index lives and dies with the process.
class NullJournal final : public SealJournal {
 public:
  absl::StatusOr<JournalEntry> Append(const transport::SealRecord&) override { return kNoEntry; }
  absl::StatusOr<JournalEntry> AppendTaken(Generation, const Extent&) override { return kNoEntry; }
  void Demote(JournalEntry) override {}
  void Erase(JournalEntry) override {}
  void NoteTerm(Term) override {}
};

}  // namespace moonpool::storage_node
