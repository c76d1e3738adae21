// The right to write one extent, as a server holds it (transport/target.h, WriteClaim).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/types.h"
#include "transport/target.h"

namespace moonpool::storage_node {

class SegmentIndex;

// The holder's side (the virtual methods) belongs to one thread at a time. The index' side is
// called under the segment's lock; the holder's steps take no lock.
class SegmentClaim final : public transport::WriteClaim {
 public:
  // `index` outlives the claim and is told of its end.
  SegmentClaim(SegmentIndex& index, Generation generation, uint64_t offset,
               transport::MutableBytes payload, transport::WriterKind kind)
      : index_(index), generation_(generation), offset_(offset), payload_(payload), kind_(kind) {}
  ~SegmentClaim() override;
  SegmentClaim(const SegmentClaim&) = delete;
  SegmentClaim& operator=(const SegmentClaim&) = delete;

  transport::MutableBytes payload() override { return payload_; }
  bool BeginStep() override;
  void EndStep() override;
  void SetWritten(std::optional<uint64_t> checksum) override {
    checksum_ = checksum;
    is_written_.store(true, std::memory_order_release);
  }

  // For the index. No step begins after this; false when the one that is running did not end
  // within a bounded wait (its thread is not scheduled): the bytes must not get an owner yet.
  bool Revoke();
  bool is_written() const { return is_written_.load(std::memory_order_acquire); }
  // Once it is written.
  bool IsWrittenAs(uint64_t checksum) const { return checksum_.value_or(checksum) == checksum; }
  bool is_mapped() const { return kind_ == transport::WriterKind::kMapped; }
  Generation generation() const { return generation_; }
  uint64_t offset() const { return offset_; }

 private:
  static constexpr uint32_t kStepping = 1;
  static constexpr uint32_t kRevoked = 2;

  SegmentIndex& index_;
  const Generation generation_;
  const uint64_t offset_;
  const transport::MutableBytes payload_;
  const transport::WriterKind kind_;
  std::atomic<uint32_t> state_{0};
  std::optional<uint64_t> checksum_;  // of what was written; constant afterwards
  std::atomic<bool> is_written_{false};
};

}  // namespace moonpool::storage_node
