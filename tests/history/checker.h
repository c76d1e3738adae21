// Whether what many clients saw can have happened in one pool: invariants 1, 2 and 7 of
// ARCHITECTURE.md over the whole history of a run, when it is over. (tests/sim/model.h judges each
// answer when it comes, on virtual time; here clients are processes, and none of them knows what
// the others do.)
//
// Rules, each a sentence that a violation begins with:
//   foreign    a value was read that no put of this key wrote, or one that had not begun
//   returned   a value was read, or the key was said to exist, after it had been removed
//   missing    what was acknowledged or read before is absent, and nothing took it
//   changed    two values of one key followed each other, and nothing took the first
//   failed     a call failed while nothing was broken
//   late       a call took longer than its time
//   refused    an error that no such call may have
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/history/record.h"

namespace moonpool::history {

struct Interval {
  absl::Time from = {};
  absl::Time to = {};

  bool meets(absl::Time begin, absl::Time end) const { return from <= end && begin <= to; }
};

// A node no longer has what it had.
struct Loss {
  uint32_t node = 0;
  Interval when = {};
  // False: it was away for so long that it was given up. It comes back with what only it had, but
  // no longer counts as the second holder of anything.
  bool is_for_good = true;
};

// What happened to the pool, as who did it knows.
struct Excuses {
  std::vector<Loss> losses = {};
  // Something was broken: absences and errors of calls meanwhile say nothing.
  std::vector<Interval> disturbed = {};
  // The pool was too small for all.
  bool evicts = false;
  // How long after its call has begun a removal may still take effect whose caller has heard
  // nothing: it may lie with a process that is stopped.
  absl::Duration removal_late = absl::Seconds(15);
  absl::Duration call_max = absl::Seconds(15);
};

struct Violation {
  std::string rule;
  std::string key;
  std::string what;  // one sentence, then the calls it is about, a line each
};

// In no particular order of records; one violation per key and rule.
std::vector<Violation> Check(absl::Span<const Record> records, const Excuses& excuses);

}  // namespace moonpool::history
