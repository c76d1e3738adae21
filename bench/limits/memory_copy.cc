#include "bench/limits/memory_copy.h"

#include <cstring>

#include "bench/measure/stopwatch.h"

namespace moonpool::bench {

MemoryCopy::MemoryCopy(Direction direction, size_t size, size_t many)
    : direction_(direction),
      size_(size),
      many_(many),
      pool_(new std::byte[size * many]),
      buffer_(new std::byte[size]) {
  std::memset(pool_.get(), 1, size * many);
  std::memset(buffer_.get(), 2, size);
}

LatencyHistogram MemoryCopy::Copy(absl::Duration time) {
  LatencyHistogram copies;
  const Stopwatch total;
  do {
    std::byte* const many = pool_.get() + next_ * size_;
    std::byte* const to = direction_ == Direction::kGet ? buffer_.get() : many;
    const std::byte* const from = direction_ == Direction::kGet ? many : buffer_.get();
    const Stopwatch watch;
    std::memcpy(to, from, size_);
    asm volatile("" : : "r"(to) : "memory");  // the copy is needed, compiler
    copies.Add(watch.elapsed());
    next_ = (next_ + 1) % many_;
  } while (total.elapsed() < time);
  return copies;
}

}  // namespace moonpool::bench
