// What a client counts while it works. Thread-safe; each counter is exact, a snapshot of several is
// not taken at one instant.
#pragma once

#include <atomic>
#include <cstdint>

#include "moonpool/client.h"

namespace moonpool::client {

class Counter {
 public:
  void Add(uint64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The fields of ClientStats (moonpool/client.h).
struct Counters {
  Counter gets, hits, misses, get_bytes;
  Counter puts, put_bytes;
  Counter location_cache_hits, master_calls, relocated, failovers, checksum_failures;

  ClientStats Snapshot() const {
    return {.gets = gets.value(),
            .hits = hits.value(),
            .misses = misses.value(),
            .get_bytes = get_bytes.value(),
            .puts = puts.value(),
            .put_bytes = put_bytes.value(),
            .location_cache_hits = location_cache_hits.value(),
            .master_calls = master_calls.value(),
            .relocated = relocated.value(),
            .failovers = failovers.value(),
            .checksum_failures = checksum_failures.value()};
  }
};

}  // namespace moonpool::client
