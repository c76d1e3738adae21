// A condition variable whose waits end by the monotonic clock.
//
// The timed waits of absl::Mutex, absl::CondVar and absl::Notification end at a time of the wall
// clock: where that is set back by an hour, one of 20 ms takes an hour. An election, a heartbeat or
// a tick that has to come in time waits here.
//
//   absl::MutexLock lock(&mutex_);
//   news_.Await(&mutex_, timeout, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
//     return !mail_.empty();
//   });
#pragma once

#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace moonpool {

// Thread-safe. One mutex goes with it; unlike Condition of absl::Mutex it has to be signalled.
class SteadyCondVar {
 public:
  // Lets go of `mutex` until a signal comes or `timeout` is over, and takes it again. May return
  // for neither reason.
  void WaitFor(absl::Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Until `is_due`, which is looked at after each signal, or until `timeout` is over; whether it
  // is due.
  bool Await(absl::Mutex* mutex, absl::Duration timeout, absl::FunctionRef<bool()> is_due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace moonpool
