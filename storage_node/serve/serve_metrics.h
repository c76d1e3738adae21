// What clients did to this node's memory, and what they were refused.
#pragma once

#include <array>

#include "absl/status/status.h"
#include "common/error.h"
#include "common/metrics/metrics.h"

namespace moonpool::storage_node {

// References into a registry, which outlives them. Recording is lock-free.
class ServeMetrics {
 public:
  explicit ServeMetrics(metrics::Registry& registry);

  metrics::Counter& reads;
  metrics::Counter& read_bytes;
  metrics::Counter& claims;
  metrics::Counter& seals;
  metrics::Counter& sealed_bytes;

  // Counts a refusal by its reason; OK counts nothing.
  void CountRefusal(const absl::Status& status);

 private:
  struct Refusal {
    ErrorReason reason;
    metrics::Counter* count;
  };
  std::array<Refusal, 8> refusals_;
  metrics::Counter& other_refusals_;
};

}  // namespace moonpool::storage_node
