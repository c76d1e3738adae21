// Looks at what is sealed, part by part and round by round, at a set rate: memory that lies still
// for days, or that an earlier life of the node has left, may have been damaged since. What a
// reader found damaged (ExtentIndex::doubted_parts) does not wait for its turn.
//
//   Scrubber scrubber(index, {.bytes_per_second = 64 << 20}, metrics, logger);
//   absl::Time next = clock.Now();
//   while (...) next = scrubber.Step(clock.Now());  // after a wait until `next`, or for a doubt
//
// A part is damaged when a reader would refuse it. Then the node forgets it, and the master is told
// (ExtentIndex::lost_parts), who has it copied from another replica, or says that it is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/checksum.h"
#include "common/log.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/scrub/scrub_metrics.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

struct ScrubberOptions {
  uint64_t bytes_per_second = 64 << 20;  // of the rounds; 0: there are none
  // Hashed by one step; a wait at the rate above follows.
  uint64_t step_bytes = 1 << 20;
  // From the begin of one round to that of the next, at least.
  absl::Duration round_min = absl::Minutes(1);
  // Hashed at readers' word, who may be wrong, or lie: a fraction of what one processor can.
  uint64_t doubted_bytes_per_second = 1 << 30;
};

// Used by one thread at a time; holds no lock of the pool while it hashes. Borrows index, metrics
// and logger.
class Scrubber {
 public:
  Scrubber(ExtentIndex& index, ScrubberOptions options, ScrubMetrics& metrics, Logger& logger);

  // Does what is due, at most a step of rounds and doubts each, and says when to come again, unless
  // a doubt comes before. Early calls do nothing.
  absl::Time Step(absl::Time now);

 private:
  struct Part {
    transport::SealRecord record;
    PartAtRest at_rest;
    ChecksumStream checksum;
    uint64_t hashed = 0;  // of the payload
  };
  // One of the two walks: at the next part, if any, and not before `due`.
  struct Walk {
    std::optional<Part> part;
    absl::Time due = absl::InfinitePast();
  };
  // Looks at parts until a step is done. False: `open_next` had no more.
  bool StepAlong(Walk& walk, absl::FunctionRef<std::optional<Part>()> open_next,
                 uint64_t bytes_per_second, absl::Time now);
  // Returns how much was hashed.
  static uint64_t HashSome(Part& part, uint64_t bytes_max);
  // The next of the round that is there. nullopt: this was a round.
  std::optional<Part> OpenNext();
  std::optional<Part> OpenDoubted();
  std::optional<Part> Open(transport::SealRecord record) const;
  void Judge(const Part& part);
  void EndRound(absl::Time now);

  ExtentIndex& index_;
  const ScrubberOptions options_;
  ScrubMetrics& metrics_;
  Logger& logger_;

  Walk round_;
  Walk doubts_;
  absl::Time round_began_ = absl::InfinitePast();
  InventoryCursor cursor_;
  std::vector<transport::SealRecord> ahead_;  // the next is the last
  bool is_last_slice_ = false;
  uint64_t damaged_in_round_ = 0;
};

}  // namespace moonpool::storage_node
