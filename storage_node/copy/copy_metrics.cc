#include "storage_node/copy/copy_metrics.h"

#include <string>

#include "common/error.h"

namespace moonpool::storage_node {

absl::string_view CopyResultName(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return "ok";
    case absl::StatusCode::kNotFound: return "no_such_part";
    case absl::StatusCode::kDataLoss: return "damaged";
    case absl::StatusCode::kFailedPrecondition:
      return ReasonOf(status) == ErrorReason::kPeerVersion ? "unreachable" : "claim_refused";
    case absl::StatusCode::kUnavailable:
      return ReasonOf(status) == ErrorReason::kBytesPinned ? "claim_refused" : "unreachable";
    case absl::StatusCode::kDeadlineExceeded: return "deadline";
    case absl::StatusCode::kCancelled: return "cancelled";
    case absl::StatusCode::kResourceExhausted: return "no_room";
    default: return "other";
  }
}

CopyMetrics::CopyMetrics(metrics::Registry& registry)
    : bytes(registry.AddCounter("moonpool_node_copied_bytes_total",
                                "Payload bytes of parts copied here from other nodes.")),
      seconds(registry.AddHistogram("moonpool_node_copy_seconds",
                                    "Time per part copied, or given up, the wait for a thread "
                                    "aside.",
                                    metrics::LatencyBuckets())),
      results_{{{"ok", nullptr},
                {"no_such_part", nullptr},
                {"damaged", nullptr},
                {"unreachable", nullptr},
                {"claim_refused", nullptr},
                {"deadline", nullptr},
                {"cancelled", nullptr},
                {"no_room", nullptr},
                {"other", nullptr}}} {
  for (Result& result : results_) {
    result.count = &registry.AddCounter("moonpool_node_copies_total",
                                        "Parts to be copied here from other nodes, by result.",
                                        {{"result", std::string(result.name)}});
  }
}

void CopyMetrics::CountResult(const absl::Status& status) {
  const absl::string_view name = CopyResultName(status);
  for (const Result& result : results_) {
    if (result.name == name) return result.count->Increment();
  }
}

}  // namespace moonpool::storage_node
