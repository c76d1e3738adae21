#include "client_sdk/core/location_cache.h"

#include <utility>

#include "common/checksum.h"

namespace moonpool::client {

LocationCache::LocationCache(size_t entries_max)
    : shard_entries_max_((entries_max + kShards - 1) / kShards) {}

LocationCache::Shard& LocationCache::ShardOf(absl::string_view key) {
  return shards_[Checksum(key) % kShards];
}

LocationPtr LocationCache::Find(absl::string_view key) {
  Shard& shard = ShardOf(key);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.by_key.find(key);
  if (found == shard.by_key.end()) return nullptr;
  Slot& slot = shard.slots[found->second];
  slot.is_recent = true;
  if (slot.touched_round != shard.touched_round && shard.touched.size() < kTouchedMax / kShards) {
    slot.touched_round = shard.touched_round;
    shard.touched.push_back({slot.location->handle(), slot.location->generation()});
  }
  return slot.location;
}

LocationPtr LocationCache::Insert(absl::string_view key, LocationPtr location) {
  if (shard_entries_max_ == 0) return location;
  Shard& shard = ShardOf(key);
  LocationPtr replaced;  // destroyed after the lock is given up
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.by_key.find(key);
  if (found != shard.by_key.end()) {
    Slot& slot = shard.slots[found->second];
    const Location& known = *slot.location;
    if (known.generation() > location->generation() ||
        (known.generation() == location->generation() && known.handle() == location->handle() &&
         known.replicas() == location->replicas())) {
      return slot.location;
    }
    slot.is_recent = true;
    slot.touched_round = 0;
    replaced = std::exchange(slot.location, location);
    return location;
  }
  const uint32_t index = shard.TakeSlot(shard_entries_max_);
  Slot& slot = shard.slots[index];
  slot.key.assign(key.data(), key.size());
  slot.location = location;
  slot.is_recent = false;
  slot.touched_round = 0;
  shard.by_key.emplace(slot.key, index);
  return location;
}

uint32_t LocationCache::Shard::TakeSlot(size_t slots_max) {
  if (!free.empty()) {
    const uint32_t index = free.back();
    free.pop_back();
    return index;
  }
  if (slots.size() < slots_max) {
    slots.emplace_back();
    return static_cast<uint32_t>(slots.size() - 1);
  }
  // Every slot is taken. The hand passes each at most once before it finds one.
  while (slots[hand].is_recent) {
    slots[hand].is_recent = false;
    hand = static_cast<uint32_t>((hand + 1) % slots.size());
  }
  const uint32_t index = hand;
  hand = static_cast<uint32_t>((hand + 1) % slots.size());
  Release(index);
  free.pop_back();
  return index;
}

LocationPtr LocationCache::Shard::Release(uint32_t index) {
  Slot& slot = slots[index];
  by_key.erase(slot.key);
  free.push_back(index);
  return std::move(slot.location);
}

void LocationCache::Erase(absl::string_view key, Generation generation) {
  Shard& shard = ShardOf(key);
  LocationPtr erased;
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.by_key.find(key);
  if (found == shard.by_key.end()) return;
  const uint32_t index = found->second;
  if (shard.slots[index].location->generation() == generation) erased = shard.Release(index);
}

void LocationCache::Erase(absl::string_view key) {
  Shard& shard = ShardOf(key);
  LocationPtr erased;
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.by_key.find(key);
  if (found != shard.by_key.end()) erased = shard.Release(found->second);
}

std::vector<Touched> LocationCache::TakeTouched() {
  std::vector<Touched> all;
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    if (shard.touched.empty()) continue;
    all.insert(all.end(), shard.touched.begin(), shard.touched.end());
    shard.touched.clear();
    ++shard.touched_round;
  }
  return all;
}

size_t LocationCache::size() const {
  size_t total = 0;
  for (const Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    total += shard.by_key.size();
  }
  return total;
}

}  // namespace moonpool::client
