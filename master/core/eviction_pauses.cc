#include "master/core/eviction_pauses.h"

#include <algorithm>
#include <bit>

namespace moonpool::master {
namespace {

int ClassOf(uint64_t bytes) { return static_cast<int>(std::bit_width(bytes)); }

}  // namespace

bool EvictionPauses::IsPaused(NodeIndex node, uint64_t hole_bytes, absl::Time now) const {
  const auto of_node = pauses_.find(node);
  if (of_node == pauses_.end()) return false;
  const int size_class = ClassOf(hole_bytes);
  return std::any_of(of_node->second.begin(), of_node->second.end(), [&](const Pause& pause) {
    return pause.size_class <= size_class && now < pause.until;
  });
}

void EvictionPauses::Extend(NodeIndex node, uint64_t hole_bytes, absl::Time now) {
  Pauses& pauses = pauses_[node];
  const int size_class = ClassOf(hole_bytes);
  auto pause = std::find_if(pauses.begin(), pauses.end(),
                            [&](const Pause& p) { return p.size_class == size_class; });
  if (pause == pauses.end()) pause = pauses.insert(pauses.end(), Pause{.size_class = size_class});
  // What was so a long time ago says nothing about today.
  const bool is_next = pause->length > absl::ZeroDuration() && now < pause->until + longest_;
  pause->length = is_next ? std::min(2 * pause->length, longest_) : first_;
  pause->until = now + pause->length;
}

void EvictionPauses::End(NodeIndex node, uint64_t hole_bytes) {
  const auto of_node = pauses_.find(node);
  if (of_node == pauses_.end()) return;
  const int size_class = ClassOf(hole_bytes);
  Pauses& pauses = of_node->second;
  pauses.erase(std::remove_if(pauses.begin(), pauses.end(),
                              [&](const Pause& p) { return p.size_class <= size_class; }),
               pauses.end());
  if (pauses.empty()) pauses_.erase(of_node);
}

}  // namespace moonpool::master
