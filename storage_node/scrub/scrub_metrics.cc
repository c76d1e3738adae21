#include "storage_node/scrub/scrub_metrics.h"

namespace moonpool::storage_node {

ScrubMetrics::ScrubMetrics(metrics::Registry& registry)
    : bytes(registry.AddCounter("moonpool_node_scrubbed_bytes_total",
                                "Bytes of sealed parts that were looked at for damage.")),
      damaged_parts(registry.AddCounter("moonpool_node_damaged_parts_total",
                                        "Sealed parts found damaged in memory, and forgotten.")),
      doubted_parts(
          registry.AddCounter("moonpool_node_doubted_parts_total",
                              "Sealed parts looked at since a reader had found them damaged.")),
      rounds(registry.AddCounter("moonpool_node_scrub_rounds_total",
                                 "Times that all sealed parts were looked at.")),
      last_round_seconds(registry.AddGauge("moonpool_node_scrub_round_seconds",
                                           "How long the last of these rounds took.")) {}

}  // namespace moonpool::storage_node
