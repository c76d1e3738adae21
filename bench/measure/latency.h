// Latencies in bounded memory: counts per bucket, 128 buckets per power of two (within 1 %).
#pragma once

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace moonpool::bench {

// Thread-compatible.
class LatencyHistogram {
 public:
  void Add(absl::Duration latency);
  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  absl::Duration total() const { return total_; }
  // Zero when empty. `quantile` in [0, 1].
  absl::Duration Quantile(double quantile) const;
  double QuantileMicros(double quantile) const {
    return absl::ToDoubleMicroseconds(Quantile(quantile));
  }

 private:
  static constexpr int kSubBits = 7;
  static constexpr int kSubBuckets = 1 << kSubBits;
  static size_t BucketOf(uint64_t nanos);
  static uint64_t MiddleOf(size_t bucket);

  std::array<uint64_t, (64 - kSubBits + 1)* kSubBuckets> buckets_ = {};
  uint64_t count_ = 0;
  absl::Duration total_;
};

}  // namespace moonpool::bench
