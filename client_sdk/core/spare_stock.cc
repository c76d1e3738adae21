#include "client_sdk/core/spare_stock.h"

#include <algorithm>
#include <utility>

namespace moonpool::client {

SpareStock::Shelf* SpareStock::Find(const SpareKind& kind) {
  const auto found = std::find_if(shelves_.begin(), shelves_.end(),
                                  [&](const Shelf& shelf) { return shelf.kind == kind; });
  return found == shelves_.end() ? nullptr : &*found;
}

void SpareStock::TookPut(const SpareKind& kind) {
  if (kind.size_bytes > kSizeMax) return;
  absl::MutexLock lock(&mutex_);
  ++puts_;
  Shelf* shelf = Find(kind);
  if (shelf == nullptr) {
    // The kind that was not put for longest makes room. What it has ends by itself.
    const auto oldest =
        std::min_element(shelves_.begin(), shelves_.end(),
                         [](const Shelf& a, const Shelf& b) { return a.last_put < b.last_put; });
    shelf = shelves_.size() < kKinds ? &shelves_.emplace_back() : &*oldest;
    *shelf = Shelf{.kind = kind, .puts_to_come = options_.puts_before};
  }
  shelf->last_put = puts_;
  if (shelf->puts_to_come > 0) --shelf->puts_to_come;
}

void SpareStock::DropOld(Shelf& shelf, absl::Time now) {
  std::erase_if(shelf.spares, [now](const SpareGrant& spare) { return spare.use_until <= now; });
}

std::optional<SpareGrant> SpareStock::Take(const SpareKind& kind, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Shelf* const shelf = Find(kind);
  if (shelf == nullptr) return std::nullopt;
  DropOld(*shelf, now);
  if (shelf->spares.empty()) return std::nullopt;
  SpareGrant spare = std::move(shelf->spares.front());
  shelf->spares.erase(shelf->spares.begin());
  return spare;
}

uint32_t SpareStock::Wanted(const SpareKind& kind, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Shelf* const shelf = Find(kind);
  if (shelf == nullptr || shelf->puts_to_come > 0) return 0;
  DropOld(*shelf, now);
  const auto have = static_cast<uint32_t>(shelf->spares.size());
  return have > kHeld / 2 ? 0 : kHeld - have;
}

void SpareStock::Add(const SpareKind& kind, SpareGrant spare) {
  absl::MutexLock lock(&mutex_);
  Shelf* const shelf = Find(kind);
  if (shelf == nullptr || shelf->spares.size() >= 2 * kHeld) return;
  shelf->spares.push_back(std::move(spare));
}

std::vector<SpareGrant> SpareStock::Failed(const SpareKind& kind) {
  absl::MutexLock lock(&mutex_);
  Shelf* const shelf = Find(kind);
  if (shelf == nullptr) return {};
  shelf->puts_to_come = options_.puts_after_failure;
  return std::exchange(shelf->spares, {});
}

std::vector<SpareGrant> SpareStock::TakeAll() {
  absl::MutexLock lock(&mutex_);
  std::vector<SpareGrant> all;
  for (Shelf& shelf : shelves_) {
    for (SpareGrant& spare : std::exchange(shelf.spares, {})) all.push_back(std::move(spare));
  }
  return all;
}

}  // namespace moonpool::client
