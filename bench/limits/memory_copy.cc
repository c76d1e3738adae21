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

double MemoryCopy::GigabytesPerSecond(absl::Duration time) {
  const Stopwatch watch;
  uint64_t bytes = 0;
  do {
    std::byte* const many = pool_.get() + next_ * size_;
    std::byte* const to = direction_ == Direction::kGet ? buffer_.get() : many;
    const std::byte* const from = direction_ == Direction::kGet ? many : buffer_.get();
    std::memcpy(to, from, size_);
    asm volatile("" : : "r"(to) : "memory");  // the copy is needed, compiler
    next_ = (next_ + 1) % many_;
    bytes += size_;
  } while (watch.elapsed() < time);
  return GigabytesPer(bytes, watch.elapsed());
}

}  // namespace moonpool::bench
