// Where evicting for copies came to nothing, and is not tried again for a while.
//
// A copy is cut like its source, so each of its parts needs a hole of its own. In a pool full of
// small objects much may go before there is one, and what was learned by that counts for all copies
// that need as large a hole on that node: else each of them would empty the pool a little more.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "master/core/object_table.h"

namespace moonpool::master {

class EvictionPauses {
 public:
  // A pause is twice as long as the one before it, up to the longest one.
  EvictionPauses(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest) {}

  // A hole of so many bytes, or a smaller one, was looked for on the node in vain.
  bool IsPaused(NodeIndex node, uint64_t hole_bytes, absl::Time now) const;
  void Extend(NodeIndex node, uint64_t hole_bytes, absl::Time now);
  // There was one.
  void End(NodeIndex node, uint64_t hole_bytes);

 private:
  // Sizes between the same two powers of two are one.
  struct Pause {
    int size_class = 0;
    absl::Duration length = {};
    absl::Time until = {};
  };
  using Pauses = absl::InlinedVector<Pause, 2>;

  absl::Duration first_;
  absl::Duration longest_;
  absl::flat_hash_map<NodeIndex, Pauses> pauses_;  // never iterated
};

}  // namespace moonpool::master
