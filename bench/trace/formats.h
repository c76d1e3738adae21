// The formats of public traces, from text in memory. Input may be hostile: what is wrong gives an
// InvalidArgument that says where and why.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/trace/request.h"

namespace moonpool::trace {

// Mooncake, FAST'25: one JSON object per line with timestamp (ms), input_length, output_length and
// hash_ids, one per 512-token block. Errors name the line.
absl::StatusOr<Trace> ParseConversationTrace(absl::string_view text);

// One coding-agent session: a JSON object with block_size and requests[], each with t (s), in, out
// and hash_ids, or a sub-agent with a start t and requests[] of its own, timed from that start.
// They are put into one order of time. Block ids are those of the session.
absl::StatusOr<Trace> ParseAgentSession(absl::string_view text);

}  // namespace moonpool::trace
