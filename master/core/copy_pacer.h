// How fast copies go: bytes per second of each node, whether it gives or takes them, and parts in
// flight at each. What clients do goes on beside it, so this is a limit, not a share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "master/core/object_table.h"
#include "master/core/options.h"

namespace moonpool::master {

// Fills at a rate, up to what a tenth of a second brings. Whoever finds it not empty may take any
// amount: a large one leaves a debt, which is filled first. So no size is too large for any rate.
class TokenBucket {
 public:
  bool HasTokens(double rate, absl::Time now) {
    Fill(rate, now);
    return tokens_ > 0;
  }
  void Take(double amount) { tokens_ -= amount; }

 private:
  void Fill(double rate, absl::Time now);

  double tokens_ = 0;
  absl::Time filled_at_ = absl::InfinitePast();  // full then
};

class CopyPacer {
 public:
  CopyPacer(uint64_t bytes_per_second, uint32_t parts_per_node)
      : rate_(static_cast<double>(bytes_per_second)), max_parts_(parts_per_node) {}

  // The node may begin to give or take so many parts more now.
  bool HasRoom(NodeIndex node, absl::Time now, size_t parts = 1);
  void Begin(NodeIndex node, uint64_t bytes);
  void End(NodeIndex node);
  uint32_t InFlight(NodeIndex node) const;

 private:
  struct Load {
    TokenBucket bucket;
    uint32_t parts = 0;
  };

  double rate_;
  uint32_t max_parts_;
  absl::flat_hash_map<NodeIndex, Load> loads_;  // at most one of each index; never iterated
};

}  // namespace moonpool::master
