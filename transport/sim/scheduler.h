// Virtual time and one runnable thing at a time: the floor of every simulation. The same seed
// gives the same run, event by event.
//
//   Scheduler scheduler;
//   scheduler.Spawn("client-1", [&] { ... scheduler.Block(deadline); ... });
//   scheduler.After(absl::Milliseconds(3), [&] { ... scheduler.Wake(token); });
//   scheduler.RunUntilIdle(limit);
//
// Actors run product code written in blocking style, each in a fiber: the event loop resumes one,
// and goes on when it blocks. All of it is one thread, and nothing is left to the operating system.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "transport/sim/fiber.h"

namespace moonpool::sim {

// Used by one thread: by who runs the loop, by events and by actors.
class Scheduler final : public Clock {
 public:
  Scheduler();
  ~Scheduler() override;  // every actor must have ended

  absl::Time Now() const override { return now_; }

  // Events of one instant run in the order in which they were made.
  void At(absl::Time time, std::function<void()> event);
  void After(absl::Duration delay, std::function<void()> event) { At(now_ + delay, event); }

  // An actor that starts at once (as an event).
  void Spawn(std::string name, std::function<void()> body);

  // Names the place that is about to Block, for Wake. Every call makes a new one.
  uint64_t NewToken() { return ++last_token_; }
  // Lets the world go on until `until` or until somebody wakes the token. Inside an actor: goes
  // back to the loop. Outside: runs events here.
  void Block(uint64_t token, absl::Time until);
  void Sleep(absl::Duration duration) { Block(NewToken(), now_ + duration); }
  // For callers outside of every actor and event, who look again and again: one event runs.
  void PollFromOutside();
  // Idempotent; a token that does not block (any more) is ignored.
  void Wake(uint64_t token);

  // Actors of this name do not run until Thaw: a process that is paused. What they would have gone
  // on with at the next Block they do then.
  void Freeze(const std::string& name);
  void Thaw(const std::string& name);

  // Runs events until none is left, `limit` is reached, or stop() says so. Not inside an actor.
  void Run(absl::Time limit, const std::function<bool()>& stop = nullptr);

  size_t live_actors() const { return live_actors_; }
  uint64_t events() const { return events_; }

 private:
  struct Actor {
    std::string name;
    std::unique_ptr<Fiber> fiber;  // none any more once it has ended
    bool is_due = false;           // frozen, and somebody has woken it meanwhile
  };

  bool Step(absl::Time limit);
  void Resume(Actor* actor);
  void ResumeUnlessFrozen(Actor* actor);

  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1);
  uint64_t sequence_ = 0;
  uint64_t events_ = 0;
  uint64_t last_token_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> queue_;
  std::map<uint64_t, std::function<void()>> blocked_;  // by token: how to go on
  std::vector<std::unique_ptr<Actor>> actors_;
  std::set<std::string> frozen_;
  bool in_event_ = false;
  size_t live_actors_ = 0;
  Actor* current_ = nullptr;  // nullptr: the loop itself
};

}  // namespace moonpool::sim
