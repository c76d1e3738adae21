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
void StreamStore(void* to, Vector value) { _mm256_stream_si256(static_cast<__m256i*>(to), value); }

#include "common/checksum_kernels.inc"

}  // namespace

const Kernels kAvx2Kernels = {
    .hash = Hash,
    .reset = Reset,
    .update = Update,
    .finish = Finish,
    .copy_and_update = CopyAndUpdate,
    .copy = Copy,
};

}  // namespace moonpool::checksum_internal
