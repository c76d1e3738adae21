// Kernels for processors with AVX2; this file alone is compiled with -mavx2.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/checksum_kernels.h"

namespace moonpool::checksum_internal {
namespace {

using Vector = __m256i;
Vector Load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
void Store(void* to, Vector value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

// In halves: malloc aligns large blocks to 16 bytes, and the cache line is written whole either
// way.
constexpr size_t kStreamAlignment = sizeof(__m128i);
void StreamStore(void* to, Vector value) {
  _mm_stream_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(value));
  _mm_stream_si128(static_cast<__m128i*>(to) + 1, _mm256_extracti128_si256(value, 1));
}

Vector Accumulate(Vector accumulator, Vector data, Vector key) {
  const Vector keyed = _mm256_xor_si256(data, key);
  const Vector product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  const Vector swapped = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(product, _mm256_add_epi64(accumulator, swapped));
}

Vector Scramble(Vector accumulator, Vector key) {
  const Vector mixed =
      _mm256_xor_si256(_mm256_xor_si256(accumulator, _mm256_srli_epi64(accumulator, 47)), key);
  const Vector prime = _mm256_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  const Vector high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
}

#include "common/checksum_kernels.inc"

}  // namespace

const Kernels kAvx2Kernels = {
    .hash = Hash,
    .reset = Reset,
    .update = Update,
    .finish = Finish,
    .copy_and_update = CopyAndUpdate,
    .copy_past_cache = CopyPastCache,
};

}  // namespace moonpool::checksum_internal
