#include "cli/kv_events/kept_batches.h"

#include <algorithm>

namespace moonpool::cli {

uint64_t KeptBatches::Add(const std::string& payload) {
  absl::MutexLock lock(&mutex_);
  bytes_ += payload.size();
  kept_.push_back(std::make_shared<const std::string>(payload));
  while (kept_.size() > options_.batches_max || bytes_ > options_.bytes_max) {
    bytes_ -= kept_.front()->size();
    kept_.pop_front();
    if (kept_.empty()) break;
  }
  return next_++;
}

std::optional<KeptBatches::Batch> KeptBatches::From(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  if (kept_.empty() || number >= next_) return std::nullopt;
  const uint64_t found = std::max(number, oldest());
  return Batch{.number = found, .payload = kept_[found - oldest()]};
}

bool KeptBatches::HasLost(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  return oldest() > std::max(number, options_.first_number);
}

uint64_t KeptBatches::next() const {
  absl::MutexLock lock(&mutex_);
  return next_;
}

}  // namespace moonpool::cli
