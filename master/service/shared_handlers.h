// The Handlers behind one short lock, and the thread that gives them time.
//
//   shared.Run([&](Handlers& handlers, absl::Time now) {
//     handlers.Exists(request, now, [&](absl::Status status, v1::ExistsResponse response) {
//       ...keep them...
//       shared.Post([this] { Finish(...); });   // runs once the lock is released
//     });
//   });
//
// Why a lock and not a thread of its own: a hand-over to another thread costs 20 us here, a call
// into the core one or two.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "master/service/meta_writer.h"
#include "master/service/metrics.h"

namespace moonpool::master {

// Thread-safe. Start once, Stop before destruction; Run works from construction to destruction.
class SharedHandlers {
 public:
  using Action = absl::AnyInvocable<void() &&>;

  // All borrowed but the core. `writer` may be nullptr where the core keeps no durable state.
  SharedHandlers(std::unique_ptr<Core> core, const HandlersOptions& options, const Clock& clock,
                 ServiceMetrics& metrics, MetaWriter* writer = nullptr);
  ~SharedHandlers();
  SharedHandlers(const SharedHandlers&) = delete;
  SharedHandlers& operator=(const SharedHandlers&) = delete;

  // Calls `call` under the lock, then runs what was posted meanwhile, on this thread.
  void Run(absl::FunctionRef<void(Handlers&, absl::Time)> call) ABSL_LOCKS_EXCLUDED(mutex_);
  // Only inside Run, or in a callback that the Handlers make.
  void Post(Action action);

  // Around the life of each call on the wire: none may be left when this object dies.
  void CallBegins() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void CallEnded() { calls_.fetch_sub(1, std::memory_order_release); }

  // The "timer" thread: ticks, and brings the metrics up to date.
  void Start();
  // Waits for the end of a write to the meta store, after which there is no other. Idempotent.
  void Stop();

 private:
  void RunTimer();
  // What there is to be written goes to the meta store once the lock is released.
  void PostWrite(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // And then the next, on whatever thread the store says that it is done.
  void Write(MetaBatch batch);
  bool is_not_writing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !is_writing_; }

  const Clock& clock_;
  ServiceMetrics& metrics_;
  MetaWriter* const writer_;
  absl::Mutex mutex_;
  absl::CondVar timer_wakes_;
  const std::unique_ptr<Core> core_ ABSL_PT_GUARDED_BY(mutex_);
  Handlers handlers_ ABSL_GUARDED_BY(mutex_);
  absl::InlinedVector<Action, 2> posted_ ABSL_GUARDED_BY(mutex_);
  absl::Time timer_due_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_;
  std::atomic<int64_t> calls_ = 0;
};

}  // namespace moonpool::master
