#include "storage_node/serve/serve_metrics.h"

#include "absl/strings/ascii.h"

namespace moonpool::storage_node {
namespace {

metrics::Counter& AddRefusal(metrics::Registry& registry, absl::string_view reason) {
  return registry.AddCounter("moonpool_node_refused_total",
                             "Reads, claims and seals refused, by reason.",
                             {{"reason", absl::AsciiStrToLower(reason)}});
}

}  // namespace

ServeMetrics::ServeMetrics(metrics::Registry& registry)
    : reads(registry.AddCounter(
          "moonpool_node_reads_total",
          "Parts opened for reading; not those read in mapped memory, of which the "
          "node sees nothing.")),
      read_bytes(registry.AddCounter("moonpool_node_read_bytes_total",
                                     "Bytes of the parts opened for reading; likewise.")),
      claims(registry.AddCounter("moonpool_node_claims_total", "Extents claimed by writers.")),
      seals(registry.AddCounter("moonpool_node_seals_total", "Parts sealed, repeats included.")),
      sealed_bytes(
          registry.AddCounter("moonpool_node_sealed_bytes_total", "Bytes of the parts sealed.")),
      refusals_{{{ErrorReason::kStaleGeneration, nullptr},
                 {ErrorReason::kStaleTerm, nullptr},
                 {ErrorReason::kBytesPinned, nullptr},
                 {ErrorReason::kBadArgument, nullptr},
                 {ErrorReason::kAlreadyExists, nullptr},
                 {ErrorReason::kLimitReached, nullptr},
                 {ErrorReason::kNoSpace, nullptr},
                 {ErrorReason::kShuttingDown, nullptr}}},
      other_refusals_(AddRefusal(registry, "other")) {
  for (Refusal& refusal : refusals_) {
    refusal.count = &AddRefusal(registry, ReasonName(refusal.reason));
  }
}

void ServeMetrics::CountRefusal(const absl::Status& status) {
  if (status.ok()) return;
  const ErrorReason reason = ReasonOf(status);
  for (const Refusal& refusal : refusals_) {
    if (refusal.reason == reason) return refusal.count->Increment();
  }
  other_refusals_.Increment();
}

}  // namespace moonpool::storage_node
