// Clients at work in threads of their own while something happens to the pool: one that puts one
// small object after the other, and some that get objects again and again.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "moonpool/client.h"
#include "tests/scenarios/workload.h"

namespace moonpool::scenarios {

struct PutLoad {
  std::string prefix = "put-";
  size_t bytes = 512;
  uint32_t replicas = 1;
  int pause_ms = 2;  // between two puts: steady, and no flood that fills the pool
  absl::Duration timeout = absl::Seconds(20);  // of one put
};

// Puts until it is stopped, and remembers when each was acknowledged.
class SteadyWriter {
 public:
  SteadyWriter(Client& client, PutLoad load);
  ~SteadyWriter();
  void Stop();

  // Between two acknowledgements that follow each other, of those after `since`; counted up to now.
  absl::Duration LongestGapSince(absl::Time since) const;
  bool HasPutSince(absl::Time since) const;
  size_t failed() const { return failed_; }
  std::string first_error() const;

  // Once it is stopped: all that was acknowledged, read by `reader`.
  Found ReadBack(Client& reader) const;

 private:
  void Run();
  std::string KeyOf(size_t i) const;

  const SteadyClock clock_ = {};
  Client& client_;
  const PutLoad load_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<size_t> failed_ = 0;
  mutable absl::Mutex mutex_;
  std::vector<absl::Time> acknowledged_at_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> acknowledged_ ABSL_GUARDED_BY(mutex_);
  std::string first_error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Gets the objects of a workload in turn until it is stopped.
class SteadyReader {
 public:
  SteadyReader(Client& client, const Workload& work);
  ~SteadyReader();
  Found Stop();

 private:
  void Run();

  Client& client_;
  const Workload work_;
  std::atomic<bool> is_stopping_ = false;
  Found found_;
  std::thread thread_;
};

}  // namespace moonpool::scenarios
