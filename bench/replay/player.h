// Plays a trace against a running pool, with one or more engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/replay/engine.h"
#include "bench/trace/request.h"

namespace moonpool::replay {

struct PlayOptions {
  EngineOptions engine;
  size_t clients = 1;
  // How many times faster than the trace; requests wait for their arrival. 0 = no waiting.
  double speed = 0;
  // Called after each request with what happened so far, one call at a time, on an engine's thread.
  std::function<void(const Tally&)> on_progress = [](const Tally&) {};
};

struct PlayResult {
  Tally tally;
  size_t batch_blocks = 0;
  absl::Duration elapsed;
};

// Requests are taken in order of arrival, each by the first engine that is free. Gives up after
// many requests in a row that failed: the pool is gone.
absl::StatusOr<PlayResult> Play(const trace::Trace& trace, const PlayOptions& options);

}  // namespace moonpool::replay
