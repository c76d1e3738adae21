// The threads `copy-N`: fetch parts from other nodes as the master orders.
//
//   CopyThreads copies({.threads = 2, .host_id = host_id}, pool->index(), clock, registry);
//   copies.queue().SetOnResult(...);
//   copies.Start();
//   MasterLink link(..., {index, copies.queue(), ...}, ...);
//   copies.Stop();                        // after the link, which orders
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/metrics/metrics.h"
#include "storage_node/copy/copy_metrics.h"
#include "storage_node/copy/copy_queue.h"
#include "storage_node/copy/copy_worker.h"
#include "storage_node/pool/extent_index.h"
#include "transport/channel.h"
#include "transport/waiter.h"

namespace moonpool::storage_node {

struct CopyThreadsOptions {
  int threads = 2;
  std::string host_id;  // of this host: parts of its other nodes come by shared memory
};

// Start and Stop on one thread; the queue on any. Borrows index and clock.
class CopyThreads {
 public:
  CopyThreads(CopyThreadsOptions options, ExtentIndex& index, const Clock& clock,
              metrics::Registry& registry);
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  CopyQueue& queue() { return queue_; }

  void Start();
  // Ends what is under way, without results, and joins. Idempotent.
  void Stop();

 private:
  void Run(CopyWorker& worker);

  const CopyThreadsOptions options_;
  CopyQueue queue_;
  CopyMetrics metrics_;
  transport::PollWaiter waiter_;
  const std::unique_ptr<transport::Transport> shm_;
  const std::unique_ptr<transport::Transport> tcp_;
  std::vector<std::unique_ptr<CopyWorker>> workers_;

  // The queue has a lock of its own; under this one threads look at it before they sleep.
  absl::Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace moonpool::storage_node
