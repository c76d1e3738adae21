#include "master/core/key_store.h"

#include <cstring>

#include "common/check.h"

namespace moonpool::master {

KeyStore::Block KeyStore::Add(absl::string_view key) {
  MP_CHECK(!key.empty() && key.size() <= kMaxKeyBytes, "key size", key.size());
  const Block block = Take(UnitsOf(key.size()));
  std::memcpy(At(block), key.data(), key.size());
  return block;
}

void KeyStore::Remove(Block block, size_t key_bytes) { PushFree(block, UnitsOf(key_bytes)); }

void KeyStore::PushFree(Block block, size_t units) {
  std::memcpy(At(block), &free_[units], sizeof(Block));
  free_[units] = block;
}

KeyStore::Block KeyStore::Take(size_t units) {
  if (free_[units] != kNone) {
    const Block block = free_[units];
    std::memcpy(&free_[units], At(block), sizeof(Block));
    return block;
  }
  if (used_in_last_ + units > kChunkUnits) {
    // What is left of the chunk is shorter than a key, so it is a block of some class.
    const size_t rest = kChunkUnits - used_in_last_;
    if (rest > 0) {
      PushFree(static_cast<Block>((chunks_.size() - 1) * kChunkUnits + used_in_last_), rest);
    }
    // make_unique would touch every page of the chunk.
    chunks_.push_back(std::unique_ptr<char[]>(new char[kChunkUnits * kUnit]));
    used_in_last_ = 0;
  }
  const size_t block = (chunks_.size() - 1) * kChunkUnits + used_in_last_;
  used_in_last_ += units;
  return static_cast<Block>(block);
}

}  // namespace moonpool::master
