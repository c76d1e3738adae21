#include "storage_node/pool/part_reports.h"

#include <algorithm>

namespace moonpool::storage_node {

void PartReports::Add(const PartAt& part) {
  bool was_idle = false;
  {
    absl::MutexLock lock(&mutex_);
    was_idle = pending_.empty() && !has_overflowed_;
    if (pending_.size() < size_max_) {
      pending_.push_back(part);
    } else {
      has_overflowed_ = true;
    }
  }
  if (was_idle && on_pending_) on_pending_();
}

std::vector<PartAt> PartReports::Take(size_t size_max) {
  absl::MutexLock lock(&mutex_);
  const auto end = pending_.begin() + static_cast<ptrdiff_t>(std::min(size_max, pending_.size()));
  std::vector<PartAt> taken(pending_.begin(), end);
  pending_.erase(pending_.begin(), end);
  return taken;
}

void PartReports::Clear() {
  absl::MutexLock lock(&mutex_);
  pending_.clear();
  has_overflowed_ = false;
}

size_t PartReports::size() const {
  absl::MutexLock lock(&mutex_);
  return pending_.size();
}

bool PartReports::has_overflowed() const {
  absl::MutexLock lock(&mutex_);
  return has_overflowed_;
}

}  // namespace moonpool::storage_node
