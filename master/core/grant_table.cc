#include "master/core/grant_table.h"

#include <algorithm>

namespace moonpool::master {
namespace {

bool IsBefore(const SealReported& reported, SealMark mark) { return reported.mark < mark; }

}  // namespace

void GrantTable::Open(SlotIndex slot, OpenGrant grant) {
  by_deadline_.emplace(grant.deadline, slot);
  generations_.insert(grant.generation);
  grants_.emplace(slot, std::move(grant));
}

void GrantTable::MarkSealed(SlotIndex slot, SealMark mark, SessionId session) {
  auto& sealed = grants_.at(slot).sealed;
  const auto place = std::lower_bound(sealed.begin(), sealed.end(), mark, IsBefore);
  if (place != sealed.end() && place->mark == mark) {
    place->session = session;
  } else {
    sealed.insert(place, SealReported{mark, session});
  }
}

SessionId GrantTable::SealedIn(SlotIndex slot, SealMark mark) const {
  const auto& sealed = grants_.at(slot).sealed;
  const auto place = std::lower_bound(sealed.begin(), sealed.end(), mark, IsBefore);
  return place != sealed.end() && place->mark == mark ? place->session : SessionId{};
}

void GrantTable::Close(SlotIndex slot) {
  const auto grant = grants_.find(slot);
  by_deadline_.erase({grant->second.deadline, slot});
  generations_.erase(grant->second.generation);
  grants_.erase(grant);
}

void GrantTable::Move(SlotIndex from, SlotIndex to) {
  OpenGrant grant = std::move(grants_.at(from));
  Close(from);
  Open(to, std::move(grant));
}

std::optional<SlotIndex> GrantTable::Due(absl::Time now) const {
  if (by_deadline_.empty() || by_deadline_.begin()->first > now) return std::nullopt;
  return by_deadline_.begin()->second;
}

std::optional<Generation> GrantTable::OldestOpen() const {
  if (generations_.empty()) return std::nullopt;
  return *generations_.begin();
}

}  // namespace moonpool::master
