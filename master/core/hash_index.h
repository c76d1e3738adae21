// From a 64-bit hash to small integers: the index of the object table and of the obituaries.
//
// Open addressing, 8 bytes an entry (32 bits of the hash and the value), in 1,024 parts that grow
// by a quarter each on their own: no insertion ever stops to rehash everything. Whoever asks
// compares the key behind a value itself. Order of iteration: none is offered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace moonpool::master {

class HashIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  // The first value under this hash that `is_match(value)` accepts, or kNone.
  template <typename IsMatch>
  uint32_t Find(uint64_t hash, IsMatch is_match) const {
    const Table& table = tables_[hash >> kTableShift];
    if (table.size == 0) return kNone;
    const uint32_t tag = static_cast<uint32_t>(hash);
    for (uint32_t i = Home(tag, table.capacity);; i = Next(i, table.capacity)) {
      const Entry& entry = table.entries[i];
      if (entry.value == kNone) return kNone;
      if (entry.tag == tag && is_match(entry.value)) return entry.value;
    }
  }
  // Brings the place where it begins to look into the cache. Nobody waits for that.
  void Prefetch(uint64_t hash) const {
    const Table& table = tables_[hash >> kTableShift];
    if (table.size == 0) return;
    __builtin_prefetch(&table.entries[Home(static_cast<uint32_t>(hash), table.capacity)]);
  }
  // The value must not be there yet.
  void Insert(uint64_t hash, uint32_t value);
  // False when it is not there.
  bool Erase(uint64_t hash, uint32_t value);

  size_t size() const { return size_; }

 private:
  static constexpr int kTableShift = 54;

  struct Entry {
    uint32_t tag = 0;
    uint32_t value = kNone;
  };
  struct Table {
    std::unique_ptr<Entry[]> entries;
    uint32_t capacity = 0;
    uint32_t size = 0;
  };

  static uint32_t Home(uint32_t tag, uint32_t capacity) {
    return static_cast<uint32_t>((uint64_t{tag} * capacity) >> 32);
  }
  static uint32_t Next(uint32_t i, uint32_t capacity) { return i + 1 == capacity ? 0 : i + 1; }
  static void Place(Table& table, Entry entry);
  static void Grow(Table& table);
  static void CloseGap(Table& table, uint32_t gap);

  std::array<Table, size_t{1} << (64 - kTableShift)> tables_;
  size_t size_ = 0;
};

}  // namespace moonpool::master
