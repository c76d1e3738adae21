#include "master/election/election_metrics.h"

namespace moonpool::master {

ElectionMetrics::ElectionMetrics(metrics::Registry& registry)
    : state(registry.AddGauge("moonpool_master_election_state",
                              "0 looking for a leader, 1 and 2 claiming the lead, 3 following, 4 "
                              "leading, 5 resigned.")),
      term(registry.AddGauge("moonpool_master_election_term",
                             "Term in which this master leads; 0 when it does not.")),
      reigns(registry.AddCounter("moonpool_master_election_reigns_total",
                                 "Times this master has become the leader.")),
      losses(
          registry.AddCounter("moonpool_master_election_losses_total",
                              "Times this master has lost the lead, its own resignations aside.")),
      silences(registry.AddCounter(
          "moonpool_master_election_silences_total",
          "Times this leader answered nobody, since etcd had not renewed its lease in time.")),
      failures(registry.AddCounter("moonpool_master_election_failures_total",
                                   "Requests to etcd that failed.")),
      renewal_seconds(registry.AddHistogram("moonpool_master_election_renewal_seconds",
                                            "Time that etcd took to renew the leader's lease.",
                                            metrics::LatencyBuckets())) {}

}  // namespace moonpool::master
