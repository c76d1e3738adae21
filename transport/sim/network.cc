#include "transport/sim/network.h"

#include <algorithm>

namespace moonpool::sim {

bool Network::Reaches(const std::string& from, const std::string& to) const {
  return !cut_.contains({from, to}) && !isolated_.contains(from) && !isolated_.contains(to);
}

absl::Duration Network::Delay() {
  const absl::Duration most =
      random_.Uniform() < options_.straggle ? options_.straggle_max : options_.delay_max;
  return options_.delay_min + (most - options_.delay_min) * random_.Uniform();
}

bool Network::Send(const std::string& from, const std::string& to, uint64_t stream,
                   std::function<void()> arrive) {
  ++sent_;
  // Drawn before looking at the cuts, so that a cut does not shift every later draw of the seed.
  const absl::Duration delay = Delay();
  const bool lost = random_.Uniform() < options_.loss;
  if (lost || !Reaches(from, to)) {
    ++lost_;
    return false;
  }
  absl::Time arrival = scheduler_.Now() + delay;
  if (stream != 0) {
    absl::Time& last = last_arrival_.try_emplace(stream, absl::InfinitePast()).first->second;
    arrival = last = std::max(arrival, last);
  }
  scheduler_.At(arrival, [this, from, to, arrive = std::move(arrive)] {
    if (Reaches(from, to)) arrive();
  });
  return true;
}

}  // namespace moonpool::sim
