#include "bench/measure/latency.h"

#include <algorithm>
#include <bit>

namespace moonpool::bench {

// Values below kSubBuckets have a bucket each; above, the kSubBits bits after the leading one pick
// the bucket within the power of two.
size_t LatencyHistogram::BucketOf(uint64_t nanos) {
  if (nanos < kSubBuckets) return nanos;
  const int shift = static_cast<int>(std::bit_width(nanos)) - 1 - kSubBits;
  const uint64_t sub = (nanos >> shift) - kSubBuckets;
  return static_cast<size_t>(shift + 1) * kSubBuckets + sub;
}

uint64_t LatencyHistogram::MiddleOf(size_t bucket) {
  if (bucket < kSubBuckets) return bucket;
  const size_t shift = bucket / kSubBuckets - 1;
  const uint64_t low = (kSubBuckets + bucket % kSubBuckets) << shift;
  return low + (uint64_t{1} << shift) / 2;
}

void LatencyHistogram::Add(absl::Duration latency) {
  const auto nanos = static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(latency), 0));
  ++buckets_[BucketOf(nanos)];
  ++count_;
  total_ += latency;
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  total_ += other.total_;
}

absl::Duration LatencyHistogram::Quantile(double quantile) const {
  if (count_ == 0) return absl::ZeroDuration();
  const auto rank = static_cast<uint64_t>(quantile * static_cast<double>(count_ - 1));
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > rank) return absl::Nanoseconds(static_cast<int64_t>(MiddleOf(i)));
  }
  return absl::ZeroDuration();
}

}  // namespace moonpool::bench
