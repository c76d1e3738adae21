#include "cli/key_results.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "cli/output/key_text.h"
#include "cli/output/table.h"
#include "common/error.h"

namespace moonpool::cli {
namespace {

using Json = nlohmann::ordered_json;

int ExitCodeOfAll(absl::Span<const absl::Status> results) {
  int code = kOk;
  for (const absl::Status& result : results) {
    const int one = ExitCodeOf(result);
    if (one == kFailed || code == kOk) code = one;
    if (code == kFailed) break;
  }
  return code;
}

// "never stored"
std::string ReasonInWords(const absl::Status& status) {
  const ErrorReason reason = ReasonOf(status);
  const std::string name = reason == ErrorReason::kUnspecified
                               ? absl::StatusCodeToString(status.code())
                               : std::string(ReasonName(reason));
  return absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", " "}}));
}

}  // namespace

int PrintKeyResults(const Session& session, absl::Span<const std::string> keys,
                    absl::Span<const absl::Status> results, const std::string& ok_word) {
  const bool is_all_one_failure =
      !results.empty() && std::all_of(results.begin(), results.end(), [&](const auto& result) {
        return ExitCodeOf(result) == kFailed && result == results[0];
      });
  if (is_all_one_failure) return Fail(session, results[0]);
  if (session.json) {
    Json list = Json::array();
    for (size_t i = 0; i < keys.size(); ++i) {
      Json entry = {{"key", KeyToText(keys[i])}};
      entry.update(StatusToJson(results[i]));
      list.push_back(entry);
    }
    PrintJson({{"results", list}});
    return ExitCodeOfAll(results);
  }
  Table table({{"key", Align::kLeft, Fit::kShrink}, {"result"}, {"why", Align::kLeft, Fit::kWrap}});
  for (size_t i = 0; i < keys.size(); ++i) {
    const absl::Status& result = results[i];
    table.AddRow({KeyToText(keys[i]), result.ok() ? ok_word : ReasonInWords(result),
                  std::string(result.message())});
  }
  table.Print(stdout);
  return ExitCodeOfAll(results);
}

}  // namespace moonpool::cli
