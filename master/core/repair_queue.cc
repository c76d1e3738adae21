#include "master/core/repair_queue.h"

#include <algorithm>

namespace moonpool::master {

const RepairQueue::Link* RepairQueue::Find(SlotIndex slot) const {
  const size_t page = slot / kPageSlots;
  if (page >= pages_.size() || pages_[page] == nullptr) return nullptr;
  const Link& link = pages_[page]->links[slot % kPageSlots];
  return link.is_here ? &link : nullptr;
}

RepairQueue::Link& RepairQueue::Place(SlotIndex slot, const Link& link) {
  const size_t page = slot / kPageSlots;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page] == nullptr) {
    pages_[page] = std::make_unique<Page>();
    ++used_pages_;
  }
  Link& at = At(slot);
  if (!at.is_here) {
    ++pages_[page]->used;
    ++size_;
  }
  at = link;
  at.is_here = true;
  return at;
}

bool RepairQueue::IsOfDrain(SlotIndex slot) const {
  const Link* const link = Find(slot);
  return link != nullptr && (link->rank == kDrainHotRank || link->rank == kDrainColdRank);
}

RepairQueue::List& RepairQueue::ListOf(const Link& link) {
  const auto rank = static_cast<size_t>(link.rank);
  return IsAsleep(link) ? asleep_[rank] : lists_[rank];
}

void RepairQueue::Append(SlotIndex slot, Link link) {
  List& list = ListOf(link);
  link.before = list.last;
  link.after = kNoSlot;
  (list.last == kNoSlot ? list.first : At(list.last).after) = slot;
  list.last = slot;
  ++list.size;
  Place(slot, link);
}

void RepairQueue::Unlink(SlotIndex slot, const Link& link) {
  if (IsWaiting(link)) {
    waiting_.erase({link.until, slot});
    return;
  }
  List& list = ListOf(link);
  (link.before == kNoSlot ? list.first : At(link.before).after) = link.after;
  (link.after == kNoSlot ? list.last : At(link.after).before) = link.before;
  --list.size;
}

void RepairQueue::Add(SlotIndex slot, RepairRank rank) {
  if (const Link* const known = Find(slot); known != nullptr) {
    const Link link = *known;
    if (rank >= link.rank && !IsAsleep(link) && !IsWaiting(link)) return;
    Unlink(slot, link);
    rank = std::min(rank, link.rank);
  }
  Append(slot, Link{.rank = rank});
}

std::optional<RepairQueue::Turn> RepairQueue::Take() {
  for (size_t rank = 0; rank < kRepairRanks; ++rank) {
    const SlotIndex slot = lists_[rank].first;
    if (slot == kNoSlot) continue;
    Remove(slot);
    return Turn{slot, static_cast<RepairRank>(rank)};
  }
  return std::nullopt;
}

void RepairQueue::PutBack(const Turn& turn) {
  List& list = lists_[static_cast<size_t>(turn.rank)];
  Place(turn.slot, Link{.after = list.first, .rank = turn.rank});
  (list.first == kNoSlot ? list.last : At(list.first).before) = turn.slot;
  list.first = turn.slot;
  ++list.size;
}

void RepairQueue::Postpone(const Turn& turn, absl::Time until) {
  Place(turn.slot, Link{.until = until, .rank = turn.rank});
  waiting_.emplace(until, turn.slot);
}

void RepairQueue::PutToSleep(const Turn& turn) {
  Append(turn.slot, Link{.sleeps_since = night_, .rank = turn.rank});
}

void RepairQueue::Delay(SlotIndex slot, absl::Time until) {
  const Link link = At(slot);
  Unlink(slot, link);
  Postpone({slot, link.rank}, until);
}

void RepairQueue::Wake(absl::Time now, uint32_t most) {
  for (; most > 0 && !waiting_.empty() && waiting_.begin()->first <= now; --most) {
    const SlotIndex slot = waiting_.begin()->second;
    const Link link = At(slot);
    Unlink(slot, link);
    Append(slot, Link{.rank = link.rank});
  }
}

void RepairQueue::WakeAll() {
  ++night_;
  for (size_t rank = 0; rank < kRepairRanks; ++rank) {
    const List from = std::exchange(asleep_[rank], {});
    if (from.first == kNoSlot) continue;
    List& to = lists_[rank];
    At(from.first).before = to.last;
    (to.last == kNoSlot ? to.first : At(to.last).after) = from.first;
    to.last = from.last;
    to.size += from.size;
  }
}

void RepairQueue::Remove(SlotIndex slot) {
  const Link* const known = Find(slot);
  if (known == nullptr) return;
  Unlink(slot, *known);
  std::unique_ptr<Page>& page = pages_[slot / kPageSlots];
  At(slot).is_here = false;
  --size_;
  if (--page->used > 0) return;
  page = nullptr;
  --used_pages_;
}

}  // namespace moonpool::master
