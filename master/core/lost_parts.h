// Parts that a node has found damaged and forgotten, until the objects they belong to are found.
//
// A report names no key, and no index leads from bytes to objects: it would cost memory for every
// part there is, for what happens to hardly any. So a walk over the node's parts, in slices, looks
// for them. What is reported meanwhile is looked for by the next walk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "master/core/node_commands.h"

namespace moonpool::master {

class LostParts {
 public:
  // Of what is known of one node; beyond, a new inventory says more in less.
  static constexpr size_t kMax = 1 << 16;

  // False: too many.
  bool Add(absl::Span<const LostPart> parts) {
    for (const LostPart& part : parts) {
      if (next_.size() >= kMax) return false;
      next_[{part.extent.segment.value, part.extent.offset}] = part.generation;
    }
    return true;
  }
  // It was reported since the walk under way began.
  bool IsNew(uint32_t segment, uint64_t offset, Generation generation) const {
    const auto part = next_.find({segment, offset});
    return part != next_.end() && part->second == generation;
  }
  // This walk looks for it.
  bool Contains(uint32_t segment, uint64_t offset, Generation generation) const {
    const auto part = sought_.find({segment, offset});
    return part != sought_.end() && part->second == generation;
  }
  // It is lost, whether a walk looks for it yet or not.
  bool Names(uint32_t segment, uint64_t offset, Generation generation) const {
    return IsNew(segment, offset, generation) || Contains(segment, offset, generation);
  }
  // The next part of the node to look at, going down; the node has `count` of them. False: there is
  // none, and nothing is sought any more.
  bool Next(size_t count, size_t* position) {
    unwalked_ = std::min(unwalked_, count);
    if (unwalked_ == 0) {
      sought_ = std::exchange(next_, {});
      if (sought_.empty()) return false;
      unwalked_ = count;
      if (count == 0) return Next(count, position);
    }
    *position = --unwalked_;
    return true;
  }

 private:
  using Place = std::pair<uint32_t, uint64_t>;  // segment, offset

  absl::flat_hash_map<Place, Generation> sought_;  // by the walk under way
  absl::flat_hash_map<Place, Generation> next_;
  size_t unwalked_ = 0;
};

}  // namespace moonpool::master
