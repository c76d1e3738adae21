#include "master/core/eviction/ghost_table.h"

#include <algorithm>
#include <bit>

namespace moonpool::master {
namespace {

constexpr uint32_t kTagShift = 12;
constexpr uint32_t kCohortShift = 10;

// From the upper half of the hash; the lower half chooses the set.
uint32_t TagOf(uint64_t key_hash) {
  return std::max<uint32_t>(1, static_cast<uint32_t>(key_hash >> 44));
}

}  // namespace

size_t GhostTable::IndexOf(uint64_t key_hash) const {
  // Linear hashing: of the n sets, those beyond the last power of two are split off from set i - p.
  const size_t power = std::bit_floor(sets_.size());
  const size_t index = key_hash & (2 * power - 1);
  return index < sets_.size() ? index : index - power;
}

void GhostTable::Resize(size_t live_count) {
  const size_t wanted = std::max<size_t>(1, live_count / kWays);
  if (sets_.size() < wanted) {
    // A split copies the whole set: an entry in the wrong half is never found and soon pushed out.
    const size_t parent = sets_.size() - std::bit_floor(sets_.size());
    sets_.push_back(Set(sets_[parent]));
  } else if (sets_.size() > wanted) {
    sets_.pop_back();
  }
}

void GhostTable::Add(uint64_t key_hash, Ghost ghost) {
  Set& set = sets_[IndexOf(key_hash)];
  std::copy_backward(set.begin(), set.end() - 1, set.end());
  set[0] =
      TagOf(key_hash) << kTagShift | (ghost.cohort & 3u) << kCohortShift | ghost.epoch % kEpochs;
}

std::optional<Ghost> GhostTable::Take(uint64_t key_hash) {
  Set& set = sets_[IndexOf(key_hash)];
  const uint32_t tag = TagOf(key_hash);
  for (auto entry = set.begin(); entry != set.end(); ++entry) {
    if (*entry >> kTagShift != tag) continue;
    const Ghost ghost = {.epoch = static_cast<uint16_t>(*entry % kEpochs),
                         .cohort = static_cast<uint8_t>(*entry >> kCohortShift & 3u)};
    std::copy(entry + 1, set.end(), entry);
    set.back() = 0;
    return ghost;
  }
  return std::nullopt;
}

}  // namespace moonpool::master
