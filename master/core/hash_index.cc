#include "master/core/hash_index.h"

#include <utility>

namespace moonpool::master {

void HashIndex::Insert(uint64_t hash, uint32_t value) {
  Table& table = tables_[hash >> kTableShift];
  if (uint64_t{table.size + 1} * 8 > uint64_t{table.capacity} * 7) Grow(table);
  Place(table, Entry{static_cast<uint32_t>(hash), value});
  ++table.size;
  ++size_;
}

bool HashIndex::Erase(uint64_t hash, uint32_t value) {
  Table& table = tables_[hash >> kTableShift];
  if (table.size == 0) return false;
  for (uint32_t i = Home(static_cast<uint32_t>(hash), table.capacity);;
       i = Next(i, table.capacity)) {
    if (table.entries[i].value == kNone) return false;
    if (table.entries[i].value != value) continue;
    CloseGap(table, i);
    --table.size;
    --size_;
    return true;
  }
}

void HashIndex::Place(Table& table, Entry entry) {
  uint32_t i = Home(entry.tag, table.capacity);
  while (table.entries[i].value != kNone) i = Next(i, table.capacity);
  table.entries[i] = entry;
}

void HashIndex::Grow(Table& table) {
  Table grown;
  grown.capacity = table.capacity + table.capacity / 4 + 4;
  grown.entries = std::make_unique<Entry[]>(grown.capacity);
  grown.size = table.size;
  for (uint32_t i = 0; i < table.capacity; ++i) {
    if (table.entries[i].value != kNone) Place(grown, table.entries[i]);
  }
  table = std::move(grown);
}

// Linear probing without tombstones: entries behind the gap move into it when their home allows.
void HashIndex::CloseGap(Table& table, uint32_t gap) {
  for (uint32_t i = Next(gap, table.capacity); table.entries[i].value != kNone;
       i = Next(i, table.capacity)) {
    const uint32_t home = Home(table.entries[i].tag, table.capacity);
    // Cyclically: does home lie in (gap, i]? Then the entry must stay.
    const bool stays = gap < i ? (gap < home && home <= i) : (gap < home || home <= i);
    if (stays) continue;
    table.entries[gap] = table.entries[i];
    gap = i;
  }
  table.entries[gap] = Entry{};
}

}  // namespace moonpool::master
