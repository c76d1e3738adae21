// The state of a node's pool and data servers, as metrics.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/metrics/metrics.h"
#include "storage_node/pool/extent_index.h"
#include "transport/server.h"

namespace moonpool::storage_node {

// Written by the link thread, about once a second.
class PoolMetrics {
 public:
  explicit PoolMetrics(metrics::Registry& registry);
  void Update(const ExtentIndex& index);

 private:
  metrics::Gauge& capacity_bytes_;
  metrics::Gauge& sealed_parts_;
  metrics::Gauge& sealed_bytes_;
  metrics::Gauge& writing_parts_;
  metrics::Gauge& pinned_parts_;
  metrics::Gauge& live_claims_;
  metrics::Counter& superseded_parts_;
};

// The counters of one data server. As above.
class ServerMetrics {
 public:
  // `backend`: "tcp", "shm".
  ServerMetrics(metrics::Registry& registry, absl::string_view backend);
  void Update(const transport::ServerCounters& now);

 private:
  metrics::Gauge& connections_;
  metrics::Counter& connections_total_;
  metrics::Counter& connections_refused_;
  metrics::Counter& handshakes_refused_;
  metrics::Counter& timeouts_;
  metrics::Counter& bad_frames_;
  metrics::Counter& received_bytes_;
  metrics::Counter& sent_bytes_;
};

}  // namespace moonpool::storage_node
