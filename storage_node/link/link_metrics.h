// How this node and its master get on.
#pragma once

#include "common/metrics/metrics.h"

namespace moonpool::storage_node {

// References into a registry, which outlives them. Recording is lock-free.
struct LinkMetrics {
  explicit LinkMetrics(metrics::Registry& registry);

  metrics::Gauge& state;  // the number of LinkState
  metrics::Gauge& term;
  metrics::Gauge& journal_full;
  metrics::Counter& sessions;
  metrics::Counter& failures;
  metrics::Counter& inventories;
  metrics::Counter& inventory_parts;
  metrics::Counter& reported_parts;
  metrics::Counter& lost_parts;
  metrics::Counter& report_overflows;
  metrics::Counter& commands;
  metrics::Counter& refused_commands;
  metrics::Counter& freed_parts;
};

}  // namespace moonpool::storage_node
