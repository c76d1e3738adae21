#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/trace/formats.h"
#include "bench/trace/json_fields.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::trace {
namespace {

constexpr uint32_t kBlockTokens = 512;
constexpr size_t kLineBytesMax = size_t{16} << 20;
constexpr uint64_t kTokensMax = std::numeric_limits<uint32_t>::max();

absl::StatusOr<Request> ParseLine(absl::string_view line) {
  if (line.size() > kLineBytesMax) return absl::InvalidArgumentError("longer than 16 MiB");
  ASSIGN_OR_RETURN(const Json json, ParseJson(line));
  if (!json.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  Request request;
  ASSIGN_OR_RETURN(request.arrival, TimeField(json, "timestamp", absl::Milliseconds(1)));
  ASSIGN_OR_RETURN(const uint64_t input, UintField(json, "input_length", kTokensMax));
  ASSIGN_OR_RETURN(const uint64_t output, UintField(json, "output_length", kTokensMax));
  ASSIGN_OR_RETURN(request.blocks, IdsField(json, "hash_ids"));
  request.input_tokens = static_cast<uint32_t>(input);
  request.output_tokens = static_cast<uint32_t>(output);
  return request;
}

}  // namespace

absl::StatusOr<Trace> ParseConversationTrace(absl::string_view text) {
  Trace trace = {.name = "conversation", .block_tokens = kBlockTokens, .requests = {}};
  size_t line_number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<Request> request = ParseLine(line);
    if (!request.ok()) return Annotate(request.status(), absl::StrCat("line ", line_number));
    trace.requests.push_back(*std::move(request));
  }
  if (trace.requests.empty()) return absl::InvalidArgumentError("the trace has no requests");
  const auto earlier = [](const Request& a, const Request& b) { return a.arrival < b.arrival; };
  std::stable_sort(trace.requests.begin(), trace.requests.end(), earlier);
  return trace;
}

}  // namespace moonpool::trace
