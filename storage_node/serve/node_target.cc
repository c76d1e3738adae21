#include "storage_node/serve/node_target.h"

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::storage_node {

// A grant is given here only after this node has answered the master in its term, so a later term
// is a peer's invention: it would lock every honest writer out.
bool NodeTarget::IsKnownTerm(Generation generation) const {
  return generation.term() <= index_.newest_term();
}

absl::Status NodeTarget::UnknownTerm(Generation generation) const {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                   absl::StrCat("generation ", ToString(generation),
                                " is of a term that no master has told this node; the newest is ",
                                index_.newest_term().value),
                   {.hint = "ask the present master for a new grant"});
}

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
  auto claim =
      IsKnownTerm(generation)
          ? index_.Claim(generation, extent, kind)
          : absl::StatusOr<std::shared_ptr<transport::WriteClaim>>(UnknownTerm(generation));
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
