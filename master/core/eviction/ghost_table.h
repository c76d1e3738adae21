// What was evicted lately: a bounded memory of keys without their objects, four bytes each.
//
// Sets of eight entries, oldest out first. There is about one entry per live object: sets are added
// and taken away one at a time as the population changes (linear hashing), so no call ever
// rehashes the table. A wrong match needs 20 equal bits in the right set: under one lookup in
// 100,000.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace moonpool::master {

struct Ghost {
  uint16_t epoch = 0;  // of the last use, modulo kEpochs
  uint8_t cohort = 0;  // 0..3
};

class GhostTable {
 public:
  static constexpr uint16_t kEpochs = 1024;

  // Follows the population: at most max(8, live_count) entries. At most one set per call.
  void Resize(size_t live_count);

  void Add(uint64_t key_hash, Ghost ghost);
  // Takes the ghost of the key out, if there is one.
  std::optional<Ghost> Take(uint64_t key_hash);
  // Brings what either will look at into the cache.
  void Prefetch(uint64_t key_hash) const { __builtin_prefetch(&sets_[IndexOf(key_hash)]); }

  size_t capacity() const { return sets_.size() * kWays; }

 private:
  static constexpr size_t kWays = 8;
  // Entry: tag (20 bits, never 0), cohort (2 bits), epoch (10 bits). 0 is empty. [0] is the newest.
  using Set = std::array<uint32_t, kWays>;

  size_t IndexOf(uint64_t key_hash) const;

  std::deque<Set> sets_ = std::deque<Set>(1);
};

}  // namespace moonpool::master
