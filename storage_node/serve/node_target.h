// What the data servers of a node do to its pool: the pool's index, counted.
//
//   NodeTarget target(incarnation, index, metrics);
//   auto server = transport::NewTcpServer(target, {...}, clock, logger);
#pragma once

#include <memory>

#include "common/types.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/serve/serve_metrics.h"
#include "transport/target.h"

namespace moonpool::storage_node {

// Thread-safe; called by the servers' io threads (or the simulator). Borrows index and metrics.
class NodeTarget final : public transport::Target {
 public:
  NodeTarget(Incarnation incarnation, ExtentIndex& index, ServeMetrics& metrics)
      : incarnation_(incarnation), index_(index), metrics_(metrics) {}

  Incarnation incarnation() const override { return incarnation_; }
  absl::StatusOr<transport::ConstBytes> OpenRead(Generation generation,
                                                 const Extent& extent) override;
  absl::StatusOr<std::shared_ptr<transport::WriteClaim>> Claim(Generation generation,
                                                               const Extent& extent,
                                                               transport::WriterKind kind) override;
  absl::Status Seal(const transport::SealRecord& record) override;
  void Doubt(Generation generation, const Extent& extent) override {
    index_.Doubt(generation, extent);
  }
  void AttachViewer(const transport::ViewPins* viewer) override { index_.AttachViewer(viewer); }
  void DetachViewer(const transport::ViewPins* viewer) override { index_.DetachViewer(viewer); }

 private:
  bool IsKnownTerm(Generation generation) const;
  absl::Status UnknownTerm(Generation generation) const;

  const Incarnation incarnation_;
  ExtentIndex& index_;
  ServeMetrics& metrics_;
};

}  // namespace moonpool::storage_node
