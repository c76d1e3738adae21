// What this node has copied from others.
#pragma once

#include <array>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/metrics/metrics.h"

namespace moonpool::storage_node {

// References into a registry, which outlives them. Any thread.
class CopyMetrics {
 public:
  explicit CopyMetrics(metrics::Registry& registry);

  metrics::Counter& bytes;
  metrics::Histogram& seconds;

  void CountResult(const absl::Status& status);

 private:
  struct Result {
    absl::string_view name;
    metrics::Counter* count;
  };
  std::array<Result, 9> results_;
};

// "ok", "no_such_part", "damaged", "unreachable", "claim_refused", "deadline", "cancelled",
// "no_room" or "other".
absl::string_view CopyResultName(const absl::Status& status);

}  // namespace moonpool::storage_node
