// A lock that is taken in the order in which it was asked for. A master serves its calls one after
// the other as they arrive; with a mutex that whoever comes by may take, one thread that calls
// without a pause keeps the others out for as long as a time slice.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace moonpool::bench {

// Waits busily: for a handful of threads that hold it for microseconds.
class ABSL_LOCKABLE Turns {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    const uint64_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
    while (serving_.load(std::memory_order_acquire) != ticket) std::this_thread::yield();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() { serving_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<uint64_t> next_ = 0;
  std::atomic<uint64_t> serving_ = 0;
};

class ABSL_SCOPED_LOCKABLE Turn {
 public:
  explicit Turn(Turns& turns) ABSL_EXCLUSIVE_LOCK_FUNCTION(turns) : turns_(turns) { turns.Lock(); }
  ~Turn() ABSL_UNLOCK_FUNCTION() { turns_.Unlock(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

}  // namespace moonpool::bench
