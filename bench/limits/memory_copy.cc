#include "bench/limits/memory_copy.h"

#include <cstring>

#include "bench/measure/stopwatch.h"

namespace moonpool::bench {

MemoryCopy::MemoryCopy(const MemoryCopyOptions& options)
    : options_(options),
      pool_(new std::byte[options.size * options.many]),
      buffers_(new std::byte[options.size * options.batch]) {
  std::memset(pool_.get(), 1, options.size * options.many);
  std::memset(buffers_.get(), 2, options.size * options.batch);
}

LatencyHistogram MemoryCopy::Copy(absl::Duration time) {
  LatencyHistogram copies;
  const Stopwatch total;
  do {
    std::byte* const pooled = pool_.get() + next_ % options_.many * options_.size;
    std::byte* const own = buffers_.get() + next_ % options_.batch * options_.size;
    const bool is_get = options_.direction == Direction::kGet;
    std::byte* const to = is_get ? own : pooled;
    const std::byte* const from = is_get ? pooled : own;
    const Stopwatch watch;
    std::memcpy(to, from, options_.size);
    asm volatile("" : : "r"(to) : "memory");  // the copy is needed, compiler
    copies.Add(watch.elapsed());
    ++next_;
  } while (total.elapsed() < time);
  return copies;
}

}  // namespace moonpool::bench
