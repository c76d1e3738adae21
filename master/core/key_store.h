// The bytes of keys, packed: 8-byte granularity and no header per key. Blocks of freed keys are
// used again for keys of the same size class.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/types.h"

namespace moonpool::master {

class KeyStore {
 public:
  using Block = uint32_t;

  KeyStore() { free_.fill(kNone); }

  // 1 to kMaxKeyBytes bytes.
  Block Add(absl::string_view key);
  void Remove(Block block, size_t key_bytes);
  absl::string_view Get(Block block, size_t key_bytes) const {
    return absl::string_view(At(block), key_bytes);
  }

  void Prefetch(Block block) const { __builtin_prefetch(At(block)); }

 private:
  static constexpr size_t kUnit = 8;
  static constexpr size_t kMaxUnits = kMaxKeyBytes / kUnit;
  static constexpr size_t kChunkUnits = (size_t{1} << 20) / kUnit;
  static constexpr Block kNone = 0xffffffff;

  static size_t UnitsOf(size_t key_bytes) { return (key_bytes + kUnit - 1) / kUnit; }
  char* At(Block block) const {
    return &chunks_[block / kChunkUnits][(block % kChunkUnits) * kUnit];
  }
  void PushFree(Block block, size_t units);
  Block Take(size_t units);

  std::vector<std::unique_ptr<char[]>> chunks_;
  size_t used_in_last_ = kChunkUnits;      // units of the last chunk
  std::array<Block, kMaxUnits + 1> free_;  // first free block of each size; the next is in it
};

}  // namespace moonpool::master
