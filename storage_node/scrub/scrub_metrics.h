// What the scrubber has looked at, and found.
#pragma once

#include "common/metrics/metrics.h"

namespace moonpool::storage_node {

// References into a registry, which outlives them. Any thread.
struct ScrubMetrics {
  explicit ScrubMetrics(metrics::Registry& registry);

  metrics::Counter& bytes;
  metrics::Counter& damaged_parts;
  metrics::Counter& doubted_parts;
  metrics::Counter& rounds;
  metrics::Gauge& last_round_seconds;
};

}  // namespace moonpool::storage_node
