// What happened to streams, on its way from gRPC's threads to the link thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/steady_cond_var.h"
#include "moonpool/v1/membership.pb.h"

namespace moonpool::storage_node {

struct StreamEvent {
  enum class Kind {
    kMessage,  // from the master
    kWritten,  // one message left
    kBroken,   // nothing more will be read; let go of the stream
    kEnded,    // it is gone, and this is why; the last event of a stream
  };
  Kind kind;
  uint64_t stream = 0;  // which one
  v1::MasterMessage message = {};
  absl::Status status = {};
};

// Thread-safe. Bounded by its producers: each stream has at most one message read, and as many
// written as the link thread gave it.
class StreamEvents {
 public:
  void Post(StreamEvent event) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
    news_.Signal();
  }
  // Ends a Take without an event.
  void Wake() {
    absl::MutexLock lock(&mutex_);
    is_woken_ = true;
    news_.Signal();
  }
  // Everything that was posted; waits for something at most `timeout`.
  std::vector<StreamEvent> Take(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return is_woken_ || !events_.empty();
    };
    news_.Await(&mutex_, timeout, is_due);
    is_woken_ = false;
    std::vector<StreamEvent> taken;
    taken.swap(events_);
    return taken;
  }

 private:
  absl::Mutex mutex_;
  SteadyCondVar news_;
  std::vector<StreamEvent> events_ ABSL_GUARDED_BY(mutex_);
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace moonpool::storage_node
