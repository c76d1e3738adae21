#include "transport/sim/scheduler.h"

#include <utility>

#include "common/check.h"

namespace moonpool::sim {

Scheduler::Scheduler() = default;

Scheduler::~Scheduler() {
  MP_CHECK(live_actors_ == 0, "a simulated actor outlives its scheduler", live_actors_);
}

void Scheduler::At(absl::Time time, std::function<void()> event) {
  queue_.emplace(std::make_pair(std::max(time, now_), ++sequence_), std::move(event));
}

void Scheduler::Spawn(std::string name, std::function<void()> body) {
  actors_.push_back(std::make_unique<Actor>());
  Actor* actor = actors_.back().get();
  actor->name = std::move(name);
  ++live_actors_;
  actor->fiber = std::make_unique<Fiber>(std::move(body));
  At(now_, [this, actor] { ResumeUnlessFrozen(actor); });
}

// Runs `actor` until it blocks or ends.
void Scheduler::Resume(Actor* actor) {
  Actor* const before = std::exchange(current_, actor);
  MP_CHECK(before == nullptr, "an actor resumed by an actor");
  actor->fiber->Resume();
  current_ = nullptr;
  if (!actor->fiber->has_ended()) return;
  actor->fiber = nullptr;
  --live_actors_;
}

void Scheduler::ResumeUnlessFrozen(Actor* actor) {
  actor->is_due = frozen_.contains(actor->name);
  if (!actor->is_due) Resume(actor);
}

void Scheduler::Freeze(const std::string& name) { frozen_.insert(name); }

void Scheduler::Thaw(const std::string& name) {
  frozen_.erase(name);
  for (const std::unique_ptr<Actor>& actor : actors_) {
    if (actor->name != name || !std::exchange(actor->is_due, false)) continue;
    At(now_, [this, actor = actor.get()] { ResumeUnlessFrozen(actor); });
  }
}

void Scheduler::Block(uint64_t token, absl::Time until) {
  Actor* const actor = current_;
  if (until < absl::InfiniteFuture()) {
    At(until, [this, token] { Wake(token); });
  }
  if (actor != nullptr) {
    blocked_.emplace(token, [this, actor] { ResumeUnlessFrozen(actor); });
    actor->fiber->Suspend();
    return;
  }
  bool woken = false;
  blocked_.emplace(token, [&woken] { woken = true; });
  while (!woken && Step(absl::InfiniteFuture())) {
  }
  MP_CHECK(woken, "the simulated world is idle and nobody will wake the caller");
}

void Scheduler::PollFromOutside() {
  if (current_ == nullptr && !in_event_) Step(absl::InfiniteFuture());
}

void Scheduler::Wake(uint64_t token) {
  const auto found = blocked_.find(token);
  if (found == blocked_.end()) return;
  // As an event of its own: the waker goes on first, and a wake-up from an actor is legal.
  At(now_, std::move(found->second));
  blocked_.erase(found);
}

bool Scheduler::Step(absl::Time limit) {
  if (queue_.empty() || queue_.begin()->first.first > limit) return false;
  auto next = queue_.extract(queue_.begin());
  now_ = next.key().first;
  ++events_;
  in_event_ = true;
  next.mapped()();
  in_event_ = false;
  return true;
}

void Scheduler::Run(absl::Time limit, const std::function<bool()>& stop) {
  MP_CHECK(current_ == nullptr, "Run() inside an actor");
  while (!(stop && stop()) && Step(limit)) {
  }
}

}  // namespace moonpool::sim
