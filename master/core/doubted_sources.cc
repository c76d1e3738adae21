#include "master/core/doubted_sources.h"

namespace moonpool::master {

void DoubtedSources::Add(SlotIndex slot, Generation generation, NodeIndex node, absl::Time now) {
  const Place place{slot, node};
  doubts_[place] = Doubt{.generation = generation, .until = now + lasts_};
  by_time_.emplace_back(now + lasts_, place);
  while (by_time_.front().first <= now || by_time_.size() > kMax) {
    const auto [until, oldest] = by_time_.front();
    by_time_.pop_front();
    const auto doubt = doubts_.find(oldest);
    if (doubt != doubts_.end() && doubt->second.until <= until) doubts_.erase(doubt);
  }
}

bool DoubtedSources::Contains(SlotIndex slot, Generation generation, NodeIndex node,
                              absl::Time now) const {
  const auto doubt = doubts_.find(Place{slot, node});
  return doubt != doubts_.end() && doubt->second.generation == generation &&
         now < doubt->second.until;
}

}  // namespace moonpool::master
