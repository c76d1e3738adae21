// How the election goes, as this master sees it.
#pragma once

#include "common/metrics/metrics.h"

namespace moonpool::master {

// References into a registry, which outlives them. Recording is lock-free, the histogram aside.
struct ElectionMetrics {
  explicit ElectionMetrics(metrics::Registry& registry);

  metrics::Gauge& state;  // the number of ElectionState
  metrics::Gauge& term;
  metrics::Counter& reigns;
  metrics::Counter& losses;
  metrics::Counter& silences;
  metrics::Counter& failures;
  metrics::Histogram& renewal_seconds;
};

}  // namespace moonpool::master
