#include "master/core/copy_pacer.h"

#include <algorithm>

#include "common/check.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kBurst = absl::Milliseconds(100);

}  // namespace

void TokenBucket::Fill(double rate, absl::Time now) {
  const double burst = rate * absl::ToDoubleSeconds(kBurst);
  const bool is_new = filled_at_ == absl::InfinitePast();
  const double gained = is_new ? burst : rate * absl::ToDoubleSeconds(now - filled_at_);
  tokens_ = std::min(tokens_ + gained, burst);
  filled_at_ = now;
}

bool CopyPacer::HasRoom(NodeIndex node, absl::Time now, size_t parts) {
  Load& load = loads_[node];
  // A copy of many parts may go beyond the limit, so that it need not wait until all is still.
  const bool has_room = load.parts < max_parts_ && load.parts + parts <= kMostCopiesOfNode;
  return has_room && load.bucket.HasTokens(rate_, now);
}

void CopyPacer::Begin(NodeIndex node, uint64_t bytes) {
  Load& load = loads_[node];
  ++load.parts;
  load.bucket.Take(static_cast<double>(bytes));
}

void CopyPacer::End(NodeIndex node) {
  Load& load = loads_.at(node);
  MP_CHECK(load.parts > 0, "no copy of node", node);
  --load.parts;
}

uint32_t CopyPacer::InFlight(NodeIndex node) const {
  const auto load = loads_.find(node);
  return load == loads_.end() ? 0 : load->second.parts;
}

}  // namespace moonpool::master
