// The nodes that an operator wants empty, by name: whatever incarnation has it. Of each how far the
// walk over what it holds has come, and what stood in the way.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "master/core/eviction/slot_table.h"

namespace moonpool::master {

// Why a replica stays on a node that is to be empty.
enum class StuckBy : uint8_t { kNoNode, kNoRoom, kUnreadable, kLeased };
using StuckCounts = std::array<uint64_t, 4>;

struct Drain {
  uint64_t moved_objects = 0;
  uint64_t moved_bytes = 0;

  // The walk goes over the node's parts from the end, again and again: first for those that were
  // read lately, then for all, then a pause.
  enum class Walk : uint8_t { kHot, kAll, kPause };
  Walk walk = Walk::kHot;
  size_t unwalked = SIZE_MAX;    // parts that this walk has still to look at
  std::vector<SlotIndex> ahead;  // objects that it has listed, and that have had no turn
  absl::Time resumes_at = absl::InfinitePast();
  StuckCounts stuck = {};  // in the last whole walk, and the pause behind it
  StuckCounts found = {};  // in this one
};

class DrainTable {
 public:
  // False when it is there already.
  bool Add(absl::string_view name) { return drains_.try_emplace(std::string(name)).second; }
  bool Remove(absl::string_view name) { return drains_.erase(name) > 0; }
  bool contains(absl::string_view name) const { return drains_.contains(name); }
  // nullptr when there is none.
  Drain* Find(absl::string_view name) {
    const auto drain = drains_.find(name);
    return drain == drains_.end() ? nullptr : &drain->second;
  }
  const Drain* Find(absl::string_view name) const {
    const auto drain = drains_.find(name);
    return drain == drains_.end() ? nullptr : &drain->second;
  }
  bool empty() const { return drains_.empty(); }
  absl::btree_map<std::string, Drain>& drains() { return drains_; }

 private:
  absl::btree_map<std::string, Drain> drains_;
};

}  // namespace moonpool::master
