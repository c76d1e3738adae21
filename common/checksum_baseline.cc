// Kernels for every x86-64 processor (SSE2).
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/checksum_kernels.h"

namespace moonpool::checksum_internal {
namespace {

using Vector = __m128i;
Vector Load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
void Store(void* to, Vector value) { _mm_storeu_si128(static_cast<__m128i*>(to), value); }

constexpr size_t kStreamAlignment = sizeof(Vector);
void StreamStore(void* to, Vector value) { _mm_stream_si128(static_cast<__m128i*>(to), value); }

Vector Accumulate(Vector accumulator, Vector data, Vector key) {
  const Vector keyed = _mm_xor_si128(data, key);
  const Vector product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
  const Vector swapped = _mm_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm_add_epi64(product, _mm_add_epi64(accumulator, swapped));
}

Vector Scramble(Vector accumulator, Vector key) {
  const Vector mixed =
      _mm_xor_si128(_mm_xor_si128(accumulator, _mm_srli_epi64(accumulator, 47)), key);
  const Vector prime = _mm_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  const Vector high = _mm_mul_epu32(_mm_srli_epi64(mixed, 32), prime);
  return _mm_add_epi64(_mm_mul_epu32(mixed, prime), _mm_slli_epi64(high, 32));
}

#include "common/checksum_kernels.inc"

}  // namespace

const Kernels kBaselineKernels = {
    .hash = Hash,
    .reset = Reset,
    .update = Update,
    .finish = Finish,
    .copy_and_update = CopyAndUpdate,
    .copy_past_cache = CopyPastCache,
};

}  // namespace moonpool::checksum_internal
