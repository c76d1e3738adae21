// A pool in memory that keeps the rules of transport/target.h, for tests of servers and clients.
//
// Simple on purpose: one lock, linear searches. Its memory is a memfd per segment, so that shm can
// map it, or a file that the next life of the node finds again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/types.h"
#include "transport/ops.h"
#include "transport/target.h"

namespace moonpool::transport {

// Thread-safe. Outlives the claims it has given.
class FakeTarget final : public Target {
 public:
  // With a folder (on tmpfs) the segments are files there, new or of an earlier life.
  explicit FakeTarget(Incarnation incarnation = Incarnation{0x1234},
                      std::vector<uint64_t> segment_bytes = {64u << 20},
                      const std::string& folder = "");
  ~FakeTarget() override;

  Incarnation incarnation() const override { return incarnation_; }
  absl::StatusOr<ConstBytes> OpenRead(Generation generation, const Extent& extent) override;
  absl::StatusOr<std::shared_ptr<WriteClaim>> Claim(Generation generation, const Extent& extent,
                                                    WriterKind kind) override;
  absl::Status Seal(const SealRecord& record) override;
  void Doubt(Generation generation, const Extent& extent) override;
  void AttachViewer(const ViewPins* viewer) override;
  void DetachViewer(const ViewPins* viewer) override;

  // For the test.
  // An earlier life has sealed it, and its bytes are there.
  void Restore(const SealRecord& record);
  int segment_fd(size_t index) const { return segments_[index].fd; }
  uint64_t segment_bytes(size_t index) const { return segments_[index].bytes; }
  size_t segment_count() const { return segments_.size(); }
  // A copy of the payload as it stands in memory.
  std::vector<std::byte> PayloadOf(const Extent& extent) const;
  // Changes one byte of the payload behind everybody's back.
  void CorruptPayload(const Extent& extent, uint64_t at);
  size_t seal_count() const;
  size_t viewer_count() const;
  // Generations of the parts that readers found damaged, in their order.
  std::vector<Generation> doubts() const;
  // Owners that are not sealed.
  size_t open_claims() const;

 private:
  class FakeClaim;
  struct Segment {
    int fd = -1;
    uint64_t bytes = 0;
    std::byte* memory = nullptr;
  };
  struct Owner {
    Generation generation;
    Extent extent;
    FakeClaim* claim = nullptr;  // nullptr once it is given up or sealed
    bool is_written = false;
    bool is_sealed = false;
  };

  absl::Status CheckExtent(const Extent& extent) const;
  std::byte* HeaderOf(const Extent& extent) const;
  std::vector<size_t> OverlappingLocked(const Extent& extent) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SupersedeLocked(Generation generation, const Extent& extent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool UnpinnedLocked(const std::vector<size_t>& owners) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(FakeClaim* claim);
  void SetWritten(FakeClaim* claim);

  const Incarnation incarnation_;
  std::vector<Segment> segments_;  // constant after construction

  mutable absl::Mutex mutex_;
  std::vector<Owner> owners_ ABSL_GUARDED_BY(mutex_);
  std::vector<const ViewPins*> viewers_ ABSL_GUARDED_BY(mutex_);
  Term newest_term_ ABSL_GUARDED_BY(mutex_);
  size_t seal_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Generation> doubts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::transport
