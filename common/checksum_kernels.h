// The inner loops of common/checksum.h, compiled once per instruction set and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/checksum.h"

namespace moonpool::checksum_internal {

// Room for an XXH3_state_t of any build of xxHash 0.8 (a static_assert in the kernels checks).
struct alignas(64) StreamState {
  std::byte opaque[1024];
};

struct Kernels {
  uint64_t (*hash)(const std::byte* bytes, size_t size);
  void (*reset)(StreamState* state);
  void (*update)(StreamState* state, const std::byte* bytes, size_t size);
  uint64_t (*finish)(const StreamState* state);
  void (*copy_and_update)(StreamState* state, std::byte* destination, const std::byte* source,
                          size_t size, CopyTo to);
  void (*copy_past_cache)(std::byte* destination, const std::byte* source, size_t size);
};

extern const Kernels kBaselineKernels;
extern const Kernels kAvx2Kernels;

}  // namespace moonpool::checksum_internal
