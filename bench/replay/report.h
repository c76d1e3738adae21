// A replay beside what was possible.
#pragma once

#include <cstdint>
#include <string>

#include "bench/replay/player.h"
#include "bench/trace/request.h"
#include "nlohmann/json.hpp"

namespace moonpool::replay {

// What the pool said before and after.
struct PoolFacts {
  uint64_t capacity_bytes = 0;
  uint64_t evicted = 0;  // by the replay, or by whoever else used the pool meanwhile
  std::string policy;
};

struct Report {
  std::string trace_name;
  uint64_t block_bytes = 0;
  uint64_t capacity_blocks = 0;
  size_t clients = 1;
  PoolFacts pool;
  PlayResult play;
  double ideal_unbounded = 0;  // hit rate of a pool that never evicts
  double ideal_optimal = 0;    // of this many blocks with perfect foresight

  double hit_rate() const;
  double get_gbps() const;
  double put_gbps() const;
  // Not one wrong byte, and every call that failed was a miss or a refusal.
  bool is_clean() const { return play.tally.wrong_bytes == 0 && play.tally.errors == 0; }
};

Report MakeReport(const trace::Trace& trace, const PlayOptions& options, PoolFacts pool,
                  PlayResult play);
nlohmann::ordered_json ToJson(const Report& report);

// A size of blocks with which the pool holds a fifth of the distinct blocks of the trace: full
// soon, and with something to choose from.
uint64_t DerivedBlockBytes(const trace::Trace& trace, uint64_t capacity_bytes);

}  // namespace moonpool::replay
