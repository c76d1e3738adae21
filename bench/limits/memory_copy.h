// What the machine's memory allows one thread: plain memcpy with the access pattern of a get (many
// sources, one destination) or of a put (one source, many destinations).
#pragma once

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "bench/measure/latency.h"

namespace moonpool::bench {

enum class Direction { kGet, kPut };

class MemoryCopy {
 public:
  // `many` buffers of `size` bytes on the side that changes.
  MemoryCopy(Direction direction, size_t size, size_t many);
  // Copies for about `time`; the time of each copy.
  LatencyHistogram Copy(absl::Duration time);

 private:
  const Direction direction_;
  const size_t size_;
  const size_t many_;
  const std::unique_ptr<std::byte[]> pool_;
  const std::unique_ptr<std::byte[]> buffer_;
  size_t next_ = 0;
};

}  // namespace moonpool::bench
