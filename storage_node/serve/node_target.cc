#include "storage_node/serve/node_target.h"

namespace moonpool::storage_node {

absl::StatusOr<transport::ConstBytes> NodeTarget::OpenRead(Generation generation,
                                                           const Extent& extent) {
  absl::StatusOr<transport::ConstBytes> bytes = index_.OpenRead(generation, extent);
  if (bytes.ok()) {
    metrics_.reads.Increment();
    metrics_.read_bytes.Increment(extent.length);
  }
  metrics_.CountRefusal(bytes.status());
  return bytes;
}

absl::StatusOr<std::shared_ptr<transport::WriteClaim>> NodeTarget::Claim(
    Generation generation, const Extent& extent, transport::WriterKind kind) {
  auto claim = index_.Claim(generation, extent, kind);
  if (claim.ok()) metrics_.claims.Increment();
  metrics_.CountRefusal(claim.status());
  return claim;
}

absl::Status NodeTarget::Seal(const transport::SealRecord& record) {
  absl::Status status = index_.Seal(record);
  if (status.ok()) {
    metrics_.seals.Increment();
    metrics_.sealed_bytes.Increment(record.extent.length);
  }
  metrics_.CountRefusal(status);
  return status;
}

}  // namespace moonpool::storage_node
