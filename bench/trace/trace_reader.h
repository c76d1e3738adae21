// Traces from files.
//
//   ASSIGN_OR_RETURN(Trace trace, ReadTrace("conversation_trace.jsonl"));
//   ASSIGN_OR_RETURN(Trace agents, ReadTrace("sessions.tar.xz", {.limit_requests = 5000}));
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/trace/request.h"

namespace moonpool::trace {

struct ReadTraceOptions {
  // The first ones by arrival.
  uint64_t limit_requests = std::numeric_limits<uint64_t>::max();
  // Sessions of coding agents have no time of day: one starts after the other, this far apart.
  absl::Duration session_spacing = absl::Seconds(60);
};

// Reads a conversation trace (JSON lines), a coding-agent session (one JSON object), or many
// sessions (a .tar, a .tar.xz, or a folder of .json files, in order of name). The content decides,
// not the name. The ids of a session's blocks are made unique among sessions.
absl::StatusOr<Trace> ReadTrace(const std::string& path, const ReadTraceOptions& options = {});

}  // namespace moonpool::trace
