// Why keys are gone: a bounded memory of the last ones, so that a miss can say its reason.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/types.h"
#include "master/core/hash_index.h"

namespace moonpool::master {

enum class DeathCause : uint8_t {
  kEvicted,
  kRemoved,
  kNodeLost,
  kExpired,     // a grant whose deadline passed
  kAborted,     // a grant that was given up
  kDamaged,     // its last bytes were, and their node has forgotten them
  kSuperseded,  // a newer generation of the key was found at a node
};

// 32 bytes. Keys are told apart by their 64-bit hash.
struct Obituary {
  uint64_t key_hash = 0;
  Generation generation = {};
  // This generation and all older ones are dead for good, wherever a record of them turns up.
  Generation dead_up_to = {};
  uint32_t when_cs = 0;       // hundredths of a second since the core's first command
  uint16_t last_seen_at = 0;  // evicted: the node that may still have a record of it; 0 = none
  DeathCause cause = DeathCause::kEvicted;
  bool covers_removal : 1 = false;  // dead_up_to counts a removal of the key, now or earlier
  // Nodes that may have a record of it owe to forget that, or the object is back and knows of them.
  bool is_settled : 1 = false;
  // Nodes that were away have whole bytes of it: they are welcome back with them.
  bool may_return : 1 = false;
};
static_assert(sizeof(Obituary) == 32);

class Obituaries {
 public:
  // Keeps the last `capacity` of them, one per key.
  explicit Obituaries(uint32_t capacity);

  // What is dead for good stays so: dead_up_to never falls while the key is remembered. Returns
  // what had to be forgotten for it.
  std::optional<Obituary> Add(const Obituary& obituary);
  std::optional<Obituary> Find(uint64_t key_hash) const;
  // Up to here any generation may be one that was removed, of a key that is forgotten.
  Generation forgotten_removals() const { return forgotten_removals_; }
  // The newest that was known of any key that is forgotten.
  Generation newest_forgotten() const { return newest_forgotten_; }

 private:
  uint32_t PositionOf(uint64_t key_hash) const;

  uint32_t capacity_;
  uint32_t next_ = 0;  // the oldest, once the ring is full
  std::vector<Obituary> ring_;
  HashIndex index_;
  Generation forgotten_removals_ = {};
  Generation newest_forgotten_ = {};
};

}  // namespace moonpool::master
