// The client's own threads, for calls that nobody waits for.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::client {

// Runs tasks in the order in which they came, on threads named sdk-0, sdk-1, ... that start with
// the first task. Thread-safe.
class Executor {
 public:
  // Told whether the executor is stopping: then it must only say so to whoever waits.
  using Task = std::function<void(bool is_stopping)>;

  Executor(size_t threads, size_t queue_max) : threads_max_(threads), queue_max_(queue_max) {}
  ~Executor() { Stop(); }

  // False: the queue is full or the executor has stopped, and the task was dropped.
  bool Post(Task task);

  // Running tasks end; waiting ones are run with is_stopping, on their thread. Idempotent. Not from
  // a task, which would wait for itself: that ends the process, and says why.
  void Stop();

 private:
  void Work();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_stopping_ || !queue_.empty();
  }

  const size_t threads_max_;
  const size_t queue_max_;
  absl::Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::client
