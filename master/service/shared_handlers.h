// The Reigns, and with them the Handlers, behind one short lock, and the thread that gives them
// time.
//
//   shared.Run([&](Reigns& reigns, absl::Time now) {
//     const auto admission = reigns.Admit(now);
//     if (!admission.ok()) return ...;
//     admission->handlers->Exists(request, now, {&response, [&](absl::Status status) {
//       ...keep it...
//       shared.Post([this] { Finish(...); });   // runs once the lock is released
//     }});
//   });
//
// Why a lock and not a thread of its own: a hand-over to another thread costs 20 us here, a call
// into the core one or two.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/steady_cond_var.h"
#include "master/election/leadership.h"
#include "master/handlers/reigns.h"
#include "master/service/meta_writer.h"
#include "master/service/metrics.h"

namespace moonpool::master {

// Thread-safe. Start once, Stop before destruction; Run works from construction to destruction.
class SharedHandlers {
 public:
  using Action = absl::AnyInvocable<void() &&>;

  // All borrowed.
  SharedHandlers(Mastership mastership, const HandlersOptions& options, const Clock& clock,
                 ServiceMetrics& metrics, MetaWriter& writer);
  ~SharedHandlers();
  SharedHandlers(const SharedHandlers&) = delete;
  SharedHandlers& operator=(const SharedHandlers&) = delete;

  // Calls `call` under the lock, then runs what was posted meanwhile, on this thread.
  void Run(absl::FunctionRef<void(Reigns&, absl::Time)> call) ABSL_LOCKS_EXCLUDED(mutex_);
  // Only inside Run, or in a callback that the Handlers make.
  void Post(Action action);

  // What the election writes, and whoever answers reads, without the lock (R10).
  Leadership& leadership() { return leadership_; }
  const Leadership& leadership() const { return leadership_; }
  bool MayAnswer(Reign reign, absl::Time now) const {
    return master::MayAnswer(leadership_, reign, now);
  }

  void CountRefusal() { metrics_.role.refusals.Increment(); }

  // Around the life of each call on the wire: none may be left when this object dies.
  void CallBegins() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void CallEnded() { calls_.fetch_sub(1, std::memory_order_release); }

  // --- For the thread that begins reigns, and disposes of those that have ended.

  struct ReignWork {
    std::optional<Reigns::Beginning> to_begin;
    std::vector<std::unique_ptr<ReignState>> ended;
    bool is_over = false;  // there will be no more
  };
  // Waits for some. The reign that is `resting` is not to begin before that time.
  ReignWork AwaitReignWork(Reign resting, absl::Time not_before);
  void EndReignWork();

  // The reign that has begun and has not ended, as it was a moment ago; none: there is none.
  Reign present_reign() const;
  // STALE_TERM from the store of a master that is alone.
  bool is_deposed() const;

  // The "timer" thread: ticks, and brings the metrics up to date.
  void Start();
  // Waits for the end of a write to the meta store, after which there is no other. Idempotent.
  void Stop();

 private:
  void RunTimer();
  // What there is to be written goes to the meta store once the lock is released.
  void PostWrite(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // And then the next, on whatever thread the store says that it is done.
  void Write(Reigns::DueWrite write);
  bool is_not_writing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !reigns_.is_writing();
  }

  const Clock& clock_;
  ServiceMetrics& metrics_;
  MetaWriter& writer_;
  Leadership leadership_;
  mutable absl::Mutex mutex_;
  // No conditions: each of the many who unlock would have to evaluate them.
  SteadyCondVar timer_wakes_;
  SteadyCondVar work_comes_;
  Reigns reigns_ ABSL_GUARDED_BY(mutex_);
  absl::InlinedVector<Action, 2> posted_ ABSL_GUARDED_BY(mutex_);
  absl::Time timer_due_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_work_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_;
  std::atomic<int64_t> calls_ = 0;
};

}  // namespace moonpool::master
