#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/trace/formats.h"
#include "bench/trace/json_fields.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::trace {
namespace {

constexpr uint64_t kTokensMax = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kBlockTokensMax = 1 << 20;
constexpr int kNestingMax = 8;  // sub-agents of sub-agents

absl::Status AppendRequests(const Json& parent, absl::Duration start, int nesting, Trace& trace);

absl::Status AppendRequest(const Json& json, absl::Duration start, int nesting, Trace& trace) {
  if (!json.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  ASSIGN_OR_RETURN(const absl::Duration offset, TimeField(json, "t", absl::Seconds(1)));
  if (json.contains("requests")) return AppendRequests(json, start + offset, nesting + 1, trace);
  Request request;
  request.arrival = start + offset;
  ASSIGN_OR_RETURN(const uint64_t input, UintField(json, "in", kTokensMax));
  ASSIGN_OR_RETURN(const uint64_t output, UintField(json, "out", kTokensMax));
  ASSIGN_OR_RETURN(request.blocks, IdsField(json, "hash_ids"));
  request.input_tokens = static_cast<uint32_t>(input);
  request.output_tokens = static_cast<uint32_t>(output);
  trace.requests.push_back(std::move(request));
  return absl::OkStatus();
}

absl::Status AppendRequests(const Json& parent, absl::Duration start, int nesting, Trace& trace) {
  if (nesting > kNestingMax) return absl::InvalidArgumentError("sub-agents are nested too deeply");
  const auto requests = parent.find("requests");
  if (requests == parent.end() || !requests->is_array()) {
    return absl::InvalidArgumentError("field \"requests\": expected an array");
  }
  for (size_t i = 0; i < requests->size(); ++i) {
    const absl::Status appended = AppendRequest((*requests)[i], start, nesting, trace);
    if (!appended.ok()) return Annotate(appended, absl::StrCat("request ", i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Trace> ParseAgentSession(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  Trace trace = {.name = "agent", .block_tokens = 0, .requests = {}};
  ASSIGN_OR_RETURN(const uint64_t block_tokens, UintField(json, "block_size", kBlockTokensMax));
  if (block_tokens == 0) return absl::InvalidArgumentError("field \"block_size\": is 0");
  trace.block_tokens = static_cast<uint32_t>(block_tokens);
  RETURN_IF_ERROR(AppendRequests(json, absl::ZeroDuration(), /*nesting=*/0, trace));
  const auto earlier = [](const Request& a, const Request& b) { return a.arrival < b.arrival; };
  std::stable_sort(trace.requests.begin(), trace.requests.end(), earlier);
  return trace;
}

}  // namespace moonpool::trace
