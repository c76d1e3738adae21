// One call of one client, as the client saw it. Times are of one clock that all clients share.
//
// Clients write two lines per call, one before it and one after it, so that a client that is killed
// leaves behind what it had begun:
//   begin CALL CLIENT OP KEY VALUE REPLICAS NANOSECONDS
//   end CALL OUTCOME VALUE NANOSECONDS WORDS...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace moonpool::history {

enum class Op { kPut, kGet, kView, kExists, kRemove };

enum class Outcome {
  kOpen,       // no answer: the client was killed before it came
  kDone,       // put: stored by this call; get, view: `value` was read; exists: yes; remove: gone
  kThere,      // put: another value was there before
  kAbsent,     // get, view, exists, remove: no such object
  kConflict,   // another client writes the key, or the view is of another host: it says nothing
  kUndecided,  // an error or a timeout: what the call was to do may be done, or be done yet
  kRefused,    // an error that none of these calls may have
};

struct Record {
  uint64_t client = 0;
  Op op = Op::kGet;
  std::string key = {};
  // Put: the attempt (tests/history/values.h). Get, view: whose bytes they are, 0 of nobody.
  uint64_t value = 0;
  uint32_t replicas = 1;  // of a put
  absl::Time invoked = {};
  absl::Time returned = absl::InfiniteFuture();
  Outcome outcome = Outcome::kOpen;
  std::string words = {};  // the status, for people
};

absl::string_view OpName(Op op);
absl::string_view OutcomeName(Outcome outcome);

// "12.345s client 3 get key: DONE value 17".
std::string Describe(const Record& record);

std::string BeginLine(uint64_t call, const Record& record);
std::string EndLine(uint64_t call, const Record& record);
// What one client wrote. A last line without its end was cut off with the client and is left out;
// any other line that cannot be read is INVALID_ARGUMENT.
absl::StatusOr<std::vector<Record>> ParseRecords(absl::string_view text);

// The calls as if all clients had been asked at `time`: what ended later is open, what began later
// is left out. The files of several clients that work on are read one after the other; without
// this, one tells of an answer that another file's call explains which is not read any more.
std::vector<Record> AsOf(std::vector<Record> records, absl::Time time);

}  // namespace moonpool::history
