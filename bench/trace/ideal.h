// How many blocks of a trace a cache can hit: without a bound, with foresight, and with a policy.
//
// All three replay request by request, as a pool is used: the prefix of a chain that is present is
// hit, up to the first block that is not; then the rest of the chain is put, each block with its
// parent named. A block with children in the cache is never evicted, and every put is admitted.
#pragma once

#include <cstdint>

#include "bench/trace/request.h"
#include "master/core/eviction/policy.h"

namespace moonpool::trace {

struct HitCount {
  uint64_t hits = 0;
  uint64_t references = 0;  // blocks of all requests
  uint64_t refused = 0;     // a single chain was longer than the cache

  double rate() const {
    return references == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(references);
  }
};

HitCount UnboundedHits(const Trace& trace);

// Belady's rule among the leaves: the one whose next use is farthest away goes. O(n log n).
HitCount OfflineOptimalHits(const Trace& trace, uint32_t capacity_blocks);

// `policy` must be fresh.
HitCount SimulatePolicy(const Trace& trace, uint32_t capacity_blocks,
                        master::EvictionPolicy& policy);

}  // namespace moonpool::trace
