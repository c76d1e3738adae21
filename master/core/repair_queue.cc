#include "master/core/repair_queue.h"

#include <algorithm>

namespace moonpool::master {

RepairQueue::List& RepairQueue::ListOf(const Link& link) {
  return IsAsleep(link) ? asleep_[link.rank] : lists_[link.rank];
}

void RepairQueue::Append(SlotIndex slot, Link link) {
  List& list = ListOf(link);
  link.before = list.last;
  link.after = kNoSlot;
  (list.last == kNoSlot ? list.first : links_.at(list.last).after) = slot;
  list.last = slot;
  ++list.size;
  links_[slot] = link;
}

void RepairQueue::Unlink(SlotIndex slot, const Link& link) {
  if (IsWaiting(link)) {
    waiting_.erase({link.until, slot});
    return;
  }
  List& list = ListOf(link);
  (link.before == kNoSlot ? list.first : links_.at(link.before).after) = link.after;
  (link.after == kNoSlot ? list.last : links_.at(link.after).before) = link.before;
  --list.size;
}

void RepairQueue::Add(SlotIndex slot, RepairRank rank) {
  const auto known = links_.find(slot);
  if (known != links_.end()) {
    const Link link = known->second;
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
  List& list = lists_[turn.rank];
  links_[turn.slot] = Link{.after = list.first, .rank = turn.rank};
  (list.first == kNoSlot ? list.last : links_.at(list.first).before) = turn.slot;
  list.first = turn.slot;
  ++list.size;
}

void RepairQueue::Postpone(const Turn& turn, absl::Time until) {
  links_[turn.slot] = Link{.rank = turn.rank, .until = until};
  waiting_.emplace(until, turn.slot);
}

void RepairQueue::PutToSleep(const Turn& turn) {
  Append(turn.slot, Link{.rank = turn.rank, .sleeps_since = night_});
}

void RepairQueue::Delay(SlotIndex slot, absl::Time until) {
  const Link link = links_.at(slot);
  Unlink(slot, link);
  Postpone({slot, link.rank}, until);
}

void RepairQueue::Wake(absl::Time now, uint32_t most) {
  for (; most > 0 && !waiting_.empty() && waiting_.begin()->first <= now; --most) {
    const SlotIndex slot = waiting_.begin()->second;
    const Link link = links_.at(slot);
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
    links_.at(from.first).before = to.last;
    (to.last == kNoSlot ? to.first : links_.at(to.last).after) = from.first;
    to.last = from.last;
    to.size += from.size;
  }
}

void RepairQueue::Remove(SlotIndex slot) {
  const auto known = links_.find(slot);
  if (known == links_.end()) return;
  Unlink(slot, known->second);
  links_.erase(known);
}

}  // namespace moonpool::master
