// The generations that this node was told to forget. A writer who is late must not bring one back:
// its master has said that it is gone, and knows nothing of what is sealed afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "common/types.h"

namespace moonpool::storage_node {

// Bounded: the oldest are forgotten, and then no generation up to the newest forgotten one is let
// in any more. A writer who is refused for that starts again, under a newer one. Not thread-safe.
class FreedGenerations {
 public:
  explicit FreedGenerations(size_t size_max) : size_max_(size_max) {}

  void Add(Generation generation) {
    if (!set_.insert(generation).second) return;
    order_.push_back(generation);
    if (order_.size() <= size_max_) return;
    refused_up_to_ = std::max(refused_up_to_, order_.front());
    set_.erase(order_.front());
    order_.pop_front();
  }
  // True: it may have been freed.
  bool Covers(Generation generation) const {
    return generation <= refused_up_to_ || set_.contains(generation);
  }

 private:
  const size_t size_max_;
  Generation refused_up_to_ = {};
  absl::flat_hash_set<Generation> set_;
  std::deque<Generation> order_;
};

}  // namespace moonpool::storage_node
