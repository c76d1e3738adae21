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
void StreamStore(void* to, Vector value) { _mm_stream_si128(static_cast<__m128i*>(to), value); }

#include "common/checksum_kernels.inc"

}  // namespace

const Kernels kBaselineKernels = {
    .hash = Hash,
    .reset = Reset,
    .update = Update,
    .finish = Finish,
    .copy_and_update = CopyAndUpdate,
    .copy = Copy,
};

}  // namespace moonpool::checksum_internal
