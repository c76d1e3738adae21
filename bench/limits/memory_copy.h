// What the machine's memory allows one thread: plain memcpy with the access pattern of a get (many
// sources, few destinations) or of a put (few sources, many destinations).
#pragma once

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "bench/measure/latency.h"

namespace moonpool::bench {

enum class Direction { kGet, kPut };

struct MemoryCopyOptions {
  Direction direction = Direction::kGet;
  size_t size = 0;   // bytes of one copy
  size_t many = 1;   // buffers of the pool's side, as objects there
  size_t batch = 1;  // buffers of the caller's side: objects of one call
};

class MemoryCopy {
 public:
  explicit MemoryCopy(const MemoryCopyOptions& options);
  // Copies for about `time`; the time of each copy.
  LatencyHistogram Copy(absl::Duration time);

 private:
  const MemoryCopyOptions options_;
  const std::unique_ptr<std::byte[]> pool_;
  const std::unique_ptr<std::byte[]> buffers_;
  size_t next_ = 0;
};

}  // namespace moonpool::bench
