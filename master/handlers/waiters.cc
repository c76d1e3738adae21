#include "master/handlers/waiters.h"

#include <algorithm>

#include "common/check.h"
#include "common/error.h"

namespace moonpool::master {

absl::Status TooManyWaiters() {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                   "this would have had to wait, and too many calls wait already",
                   {.hint = "retry later", .retry_after = absl::Milliseconds(100)});
}

CallId Waiters::Add(std::unique_ptr<Waiter> waiter, Waiter::Progress progress,
                    absl::Time deadline) {
  MP_CHECK(progress != Waiter::Progress::kDone, "a call that is done does not wait");
  const uint64_t id = ++last_id_;
  const bool waits_for_space = progress == Waiter::Progress::kSpace;
  entries_.emplace(
      id,
      Entry{.waiter = std::move(waiter), .deadline = deadline, .waits_for_space = waits_for_space});
  (waits_for_space ? space_ : others_).ids.insert(id);
  deadlines_.emplace(deadline, id);
  ++counts_.waits;
  return CallId{id};
}

std::unique_ptr<Waiter> Waiters::Take(Entries::iterator it) {
  std::unique_ptr<Waiter> waiter = std::move(it->second.waiter);
  deadlines_.erase({it->second.deadline, it->first});
  (it->second.waits_for_space ? space_ : others_).ids.erase(it->first);
  entries_.erase(it);
  return waiter;
}

void Waiters::Cancel(CallId id, const absl::Status& status, absl::Time now) {
  const auto it = entries_.find(id.value);
  if (it == entries_.end()) return;
  ++counts_.waits_cancelled;
  space_.Mark();  // those behind it need not wait for the end of its turn
  Take(it)->Fail(status, now);
}

void Waiters::FailAll(const absl::Status& status, absl::Time now) {
  while (!entries_.empty()) Take(entries_.begin())->Fail(status, now);
}

void Waiters::ExpireDue(absl::Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    ++counts_.waits_expired;
    space_.Mark();
    Take(entries_.find(deadlines_.begin()->second))->Expire(now);
  }
}

void Waiters::Pump(Occasion occasion, absl::Time now) {
  const bool is_tick = occasion == Occasion::kTick;
  Budget budget{is_tick ? options_.retried_keys_per_tick : options_.retried_keys_per_call, is_tick};
  if (space_.is_pending) PumpSpace(now, budget);
  if (others_.is_pending) PumpOthers(now, budget);
}

bool Waiters::Charge(uint64_t id, Budget& budget) {
  const size_t cost = std::max<size_t>(1, entries_.find(id)->second.waiter->key_count());
  const bool fits = cost <= budget.keys || budget.is_whole_tick;
  budget.is_whole_tick = false;
  budget.keys -= std::min(budget.keys, cost);
  return fits;
}

bool Waiters::Retry(uint64_t id, absl::Time now) {
  const auto it = entries_.find(id);
  Entry& entry = it->second;
  const Waiter::Progress progress = entry.waiter->Retry(now);
  if (progress == Waiter::Progress::kDone) {
    Take(it);
    return true;
  }
  const bool waits_for_space = progress == Waiter::Progress::kSpace;
  if (waits_for_space == entry.waits_for_space) return false;
  (entry.waits_for_space ? space_ : others_).ids.erase(id);
  (waits_for_space ? space_ : others_).ids.insert(id);
  entry.waits_for_space = waits_for_space;
  return true;
}

void Waiters::PumpSpace(absl::Time now, Budget& budget) {
  auto it = space_.Begin();
  while (it != space_.ids.end()) {
    const uint64_t id = *it;
    if (!Charge(id, budget)) return space_.StopAt(id);
    if (!Retry(id, now)) {
      Entry& entry = entries_.find(id)->second;
      if (entry.turn_ends == absl::InfinitePast()) entry.turn_ends = now + options_.space_turn;
      if (now < entry.turn_ends) return;
    }
    it = space_.ids.upper_bound(id);
  }
}

void Waiters::PumpOthers(absl::Time now, Budget& budget) {
  auto it = others_.Begin();
  while (it != others_.ids.end()) {
    const uint64_t id = *it;
    if (!Charge(id, budget)) return others_.StopAt(id);
    Retry(id, now);
    it = others_.ids.upper_bound(id);
  }
}

}  // namespace moonpool::master
