// SIGINT and SIGTERM as one event: "please stop".
#pragma once

#include <signal.h>

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/steady_cond_var.h"

namespace moonpool {

// Made first thing in main, before any thread: threads inherit the mask that keeps the two signals
// for the thread in here ("signals"). The first one asks to stop; a second ends the process at
// once with 128 + its number, for those who do not want to wait. SIGPIPE is ignored: a peer that
// hung up is an error of that write.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // the old mask is back
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Blocks until somebody asked. Any thread.
  void Wait() const;
  // Wait, but no longer than `timeout`; true when somebody asked.
  bool WaitFor(absl::Duration timeout) const;
  bool is_requested() const;
  // Asks from within: a part of the program found that it cannot go on.
  void Request();

 private:
  void Run();

  sigset_t old_mask_;
  int signal_fd_;
  int quit_fd_;

  mutable absl::Mutex mutex_;
  mutable SteadyCondVar stops_;
  bool is_requested_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace moonpool
