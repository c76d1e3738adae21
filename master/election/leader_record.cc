#include "master/election/leader_record.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/error.h"

namespace moonpool::master {
namespace {

// Longer than any host name and port; what is longer is not ours.
constexpr size_t kAddressBytesMax = 300;

absl::Status Unreadable(absl::string_view what, absl::string_view text) {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kBadFrame,
                   absl::StrCat("no ", what, " of a master: \"",
                                absl::CHexEscape(text.substr(0, kAddressBytesMax)), "\""),
                   {.hint = "something else writes below the prefix of the election in etcd; "
                            "find it, or set another prefix"});
}

}  // namespace

std::string FormatLeaderRecord(const LeaderRecord& record) {
  return absl::StrCat("term=", record.term.value,
                      " candidate=", absl::Hex(record.candidate, absl::kZeroPad16),
                      " address=", record.address);
}

absl::StatusOr<LeaderRecord> ParseLeaderRecord(absl::string_view text) {
  const absl::Status unreadable = Unreadable("leader record", text);
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() != 3) return unreadable;
  absl::string_view term = words[0];
  absl::string_view candidate = words[1];
  absl::string_view address = words[2];
  LeaderRecord record;
  if (!absl::ConsumePrefix(&term, "term=") || !absl::ConsumePrefix(&candidate, "candidate=") ||
      !absl::ConsumePrefix(&address, "address=")) {
    return unreadable;
  }
  const auto parsed_term = ParseTerm(term);
  if (!parsed_term.ok() || candidate.size() != 16 ||
      !absl::SimpleHexAtoi(candidate, &record.candidate) || address.empty() ||
      address.size() > kAddressBytesMax) {
    return unreadable;
  }
  record.term = *parsed_term;
  record.address = std::string(address);
  return record;
}

std::string FormatTerm(Term term) { return absl::StrCat(term.value); }

absl::StatusOr<Term> ParseTerm(absl::string_view text) {
  Term term;
  // SimpleAtoi would take blanks and signs as well.
  const bool is_number = !text.empty() && text.size() <= 10 &&
                         text.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!is_number || !absl::SimpleAtoi(text, &term.value) || term.value == 0 || term > kTermMax) {
    return Unreadable("term", text);
  }
  return term;
}

}  // namespace moonpool::master
