// The two keys of an election, and what is in them. Both are text, for people with etcdctl:
//
//   PREFIX/leader   "term=7 candidate=00c0ffee00c0ffee address=10.0.0.1:7400"   (bound to a lease)
//   PREFIX/term     "7"                                                         (stays for ever)
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/types.h"

namespace moonpool::master {

struct LeaderRecord {
  Term term;
  uint64_t candidate = 0;  // which process: random, a new one with each start
  std::string address;     // where clients and nodes call it
  bool operator==(const LeaderRecord&) const = default;
};

std::string FormatLeaderRecord(const LeaderRecord& record);
// DATA_LOSS: it was not written by a master.
absl::StatusOr<LeaderRecord> ParseLeaderRecord(absl::string_view text);

std::string FormatTerm(Term term);
absl::StatusOr<Term> ParseTerm(absl::string_view text);

}  // namespace moonpool::master
