#include "tests/history/record.h"

#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace moonpool::history {
namespace {

constexpr std::pair<Op, absl::string_view> kOps[] = {{Op::kPut, "put"},
                                                     {Op::kGet, "get"},
                                                     {Op::kView, "view"},
                                                     {Op::kExists, "exists"},
                                                     {Op::kRemove, "remove"}};

constexpr std::pair<Outcome, absl::string_view> kOutcomes[] = {
    {Outcome::kOpen, "open"},         {Outcome::kDone, "done"},
    {Outcome::kThere, "there"},       {Outcome::kAbsent, "absent"},
    {Outcome::kConflict, "conflict"}, {Outcome::kUndecided, "undecided"},
    {Outcome::kRefused, "refused"}};

template <typename Value, size_t size>
absl::string_view NameOf(Value value, const std::pair<Value, absl::string_view> (&names)[size]) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";
}

template <typename Value, size_t size>
bool FromName(absl::string_view word, const std::pair<Value, absl::string_view> (&names)[size],
              Value& value) {
  for (const auto& [known, name] : names) {
    if (name == word) {
      value = known;
      return true;
    }
  }
  return false;
}

bool FromNanos(absl::string_view word, absl::Time& time) {
  int64_t nanos = 0;
  if (!absl::SimpleAtoi(word, &nanos)) return false;
  time = absl::FromUnixNanos(nanos);
  return true;
}

using OpenCalls = std::map<uint64_t, size_t>;  // call -> its place among the records

bool ReadBegin(const std::vector<absl::string_view>& words, OpenCalls& open,
               std::vector<Record>& records) {
  uint64_t call = 0;
  Record record;
  if (words.size() != 8 || !absl::SimpleAtoi(words[1], &call) ||
      !absl::SimpleAtoi(words[2], &record.client) || !FromName(words[3], kOps, record.op) ||
      !absl::SimpleAtoi(words[5], &record.value) || !absl::SimpleAtoi(words[6], &record.replicas) ||
      !FromNanos(words[7], record.invoked)) {
    return false;
  }
  record.key = std::string(words[4]);
  if (!open.emplace(call, records.size()).second) return false;
  records.push_back(std::move(record));
  return true;
}

bool ReadEnd(const std::vector<absl::string_view>& words, OpenCalls& open,
             std::vector<Record>& records) {
  uint64_t call = 0;
  if (words.size() < 5 || !absl::SimpleAtoi(words[1], &call)) return false;
  const auto found = open.find(call);
  if (found == open.end()) return false;
  Record& record = records[found->second];
  open.erase(found);
  record.words = absl::StrJoin(words.begin() + 5, words.end(), " ");
  return FromName(words[2], kOutcomes, record.outcome) &&
         absl::SimpleAtoi(words[3], &record.value) && FromNanos(words[4], record.returned);
}

}  // namespace

absl::string_view OpName(Op op) { return NameOf(op, kOps); }
absl::string_view OutcomeName(Outcome outcome) { return NameOf(outcome, kOutcomes); }

std::string Describe(const Record& record) {
  const auto seconds = [](absl::Time time) {
    return absl::FormatDuration(absl::Trunc(time - absl::UnixEpoch(), absl::Microseconds(1)));
  };
  return absl::StrCat(seconds(record.invoked), " to ", seconds(record.returned), ": client ",
                      record.client, " ", OpName(record.op), " ", record.key, " ",
                      OutcomeName(record.outcome), ", value ", record.value,
                      record.words.empty() ? "" : "; ", record.words);
}

std::string BeginLine(uint64_t call, const Record& record) {
  return absl::StrCat("begin ", call, " ", record.client, " ", OpName(record.op), " ", record.key,
                      " ", record.value, " ", record.replicas, " ",
                      absl::ToUnixNanos(record.invoked), "\n");
}

std::string EndLine(uint64_t call, const Record& record) {
  std::string words = record.words;
  for (char& letter : words) {
    if (letter == '\n') letter = ' ';
  }
  return absl::StrCat("end ", call, " ", OutcomeName(record.outcome), " ", record.value, " ",
                      absl::ToUnixNanos(record.returned), " ", words, "\n");
}

absl::StatusOr<std::vector<Record>> ParseRecords(absl::string_view text) {
  text = text.substr(0, text.rfind('\n') == absl::string_view::npos ? 0 : text.rfind('\n'));
  std::vector<Record> records;
  OpenCalls open;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++number;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    const bool is_read = words[0] == "begin" ? ReadBegin(words, open, records)
                         : words[0] == "end" ? ReadEnd(words, open, records)
                                             : false;
    if (!is_read) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " of the records says nothing: ", line));
    }
  }
  return records;
}

std::vector<Record> AsOf(std::vector<Record> records, absl::Time time) {
  std::erase_if(records, [&](const Record& record) { return record.invoked > time; });
  for (Record& record : records) {
    if (record.returned <= time) continue;
    record.returned = absl::InfiniteFuture();
    record.outcome = Outcome::kOpen;
    record.words.clear();
    if (record.op != Op::kPut) record.value = 0;
  }
  return records;
}

}  // namespace moonpool::history
