#include "master/core/obituary.h"

#include <algorithm>

namespace moonpool::master {

Obituaries::Obituaries(uint32_t capacity) : capacity_(std::max<uint32_t>(capacity, 1)) {}

std::optional<Obituary> Obituaries::Add(const Obituary& obituary) {
  const uint32_t known = PositionOf(obituary.key_hash);
  if (known != HashIndex::kNone) {
    // The key's newer death replaces the older one in place.
    const Obituary before = ring_[known];
    ring_[known] = obituary;
    ring_[known].dead_up_to = std::max(before.dead_up_to, obituary.dead_up_to);
    ring_[known].covers_removal = before.covers_removal || obituary.covers_removal;
    return std::nullopt;
  }
  if (ring_.size() < capacity_) {
    index_.Insert(obituary.key_hash, static_cast<uint32_t>(ring_.size()));
    ring_.push_back(obituary);
    return std::nullopt;
  }
  const Obituary forgotten = ring_[next_];
  if (forgotten.covers_removal) {
    forgotten_removals_ = std::max(forgotten_removals_, forgotten.dead_up_to);
  }
  newest_forgotten_ = std::max({newest_forgotten_, forgotten.generation, forgotten.dead_up_to});
  index_.Erase(forgotten.key_hash, next_);
  ring_[next_] = obituary;
  index_.Insert(obituary.key_hash, next_);
  next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
  return forgotten;
}

std::optional<Obituary> Obituaries::Find(uint64_t key_hash) const {
  const uint32_t position = PositionOf(key_hash);
  if (position == HashIndex::kNone) return std::nullopt;
  return ring_[position];
}

uint32_t Obituaries::PositionOf(uint64_t key_hash) const {
  return index_.Find(key_hash,
                     [&](uint32_t position) { return ring_[position].key_hash == key_hash; });
}

}  // namespace moonpool::master
