#include "storage_node/link/link_metrics.h"

namespace moonpool::storage_node {

LinkMetrics::LinkMetrics(metrics::Registry& registry)
    : state(registry.AddGauge("moonpool_node_link_state",
                              "The link to the master: 0 waiting, 1 connecting, 2 registering, 3 "
                              "uploading the inventory, 4 live.")),
      term(registry.AddGauge("moonpool_node_link_term", "Term of the present master.")),
      journal_full(registry.AddGauge(
          "moonpool_node_journal_full",
          "1 while the index in --pool-dir cannot grow: no more parts are taken than fit.")),
      sessions(registry.AddCounter("moonpool_node_link_sessions_total",
                                   "Times a master has registered this node.")),
      failures(registry.AddCounter("moonpool_node_link_failures_total",
                                   "Connections that failed or ended.")),
      inventories(registry.AddCounter("moonpool_node_inventories_total",
                                      "Inventories uploaded completely.")),
      inventory_parts(registry.AddCounter("moonpool_node_inventory_parts_total",
                                          "Parts named in inventories.")),
      reported_parts(registry.AddCounter("moonpool_node_reported_parts_total",
                                         "Parts named in seal reports.")),
      lost_parts(registry.AddCounter("moonpool_node_reported_lost_parts_total",
                                     "Parts that the master was told are lost.")),
      report_overflows(registry.AddCounter(
          "moonpool_node_report_overflows_total",
          "Sessions begun anew since more waited to be reported than is remembered, or than the "
          "master understands.")),
      commands(registry.AddCounter("moonpool_node_commands_total", "Commands of the master.")),
      refused_commands(registry.AddCounter("moonpool_node_refused_commands_total",
                                           "Commands not done: an older term, or unknown.")),
      freed_parts(registry.AddCounter("moonpool_node_freed_parts_total",
                                      "Parts forgotten at the master's command.")) {}

}  // namespace moonpool::storage_node
