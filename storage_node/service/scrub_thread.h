// The thread `scrub`: reads what is sealed, slowly, and what a reader doubts, at once, and finds
// what is damaged (storage_node/scrub).
#pragma once

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/steady_cond_var.h"
#include "storage_node/scrub/scrubber.h"

namespace moonpool::storage_node {

// Start and Stop on one thread. Borrows clock.
class ScrubThread {
 public:
  ScrubThread(std::unique_ptr<Scrubber> scrubber, const Clock& clock)
      : scrubber_(std::move(scrubber)), clock_(clock) {}
  ~ScrubThread();
  ScrubThread(const ScrubThread&) = delete;
  ScrubThread& operator=(const ScrubThread&) = delete;

  void Start();
  // There is a doubt. Any thread, at any time.
  void Wake();
  // Joins, after at most one step. Idempotent.
  void Stop();

 private:
  void Run();

  const std::unique_ptr<Scrubber> scrubber_;
  const Clock& clock_;

  absl::Mutex mutex_;
  SteadyCondVar news_;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace moonpool::storage_node
