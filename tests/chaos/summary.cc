#include "tests/chaos/summary.h"

#include <algorithm>
#include <string>
#include <vector>

namespace moonpool::chaos {

using history::Outcome;
using history::Record;

nlohmann::json CountCalls(absl::Span<const Record> records) {
  nlohmann::json counts = nlohmann::json::object();
  for (const Record& record : records) {
    nlohmann::json& count = counts[std::string(history::OpName(record.op))]
                                  [std::string(history::OutcomeName(record.outcome))];
    count = count.is_null() ? 1 : count.get<uint64_t>() + 1;
  }
  return counts;
}

absl::Duration LongestSilence(absl::Span<const Record> records, absl::Span<const history::Op> ops) {
  std::vector<absl::Time> answers;
  for (const Record& record : records) {
    const bool is_answered = record.outcome == Outcome::kDone ||
                             record.outcome == Outcome::kThere ||
                             record.outcome == Outcome::kAbsent;
    if (is_answered && std::find(ops.begin(), ops.end(), record.op) != ops.end()) {
      answers.push_back(record.returned);
    }
  }
  std::sort(answers.begin(), answers.end());
  absl::Duration longest;
  for (size_t i = 1; i < answers.size(); ++i) {
    longest = std::max(longest, answers[i] - answers[i - 1]);
  }
  return longest;
}

}  // namespace moonpool::chaos
