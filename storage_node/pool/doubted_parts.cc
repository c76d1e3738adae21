#include "storage_node/pool/doubted_parts.h"

#include <algorithm>

namespace moonpool::storage_node {

void DoubtedParts::Add(const PartAt& part) {
  {
    absl::MutexLock lock(&mutex_);
    if (pending_.size() >= size_max_ || taken_ == part ||
        std::find(pending_.begin(), pending_.end(), part) != pending_.end()) {
      return;
    }
    pending_.push_back(part);
  }
  if (on_pending_) on_pending_();
}

std::optional<PartAt> DoubtedParts::Take() {
  absl::MutexLock lock(&mutex_);
  taken_.reset();
  if (pending_.empty()) return std::nullopt;
  taken_ = pending_.front();
  pending_.pop_front();
  return taken_;
}

}  // namespace moonpool::storage_node
