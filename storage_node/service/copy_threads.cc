#include "storage_node/service/copy_threads.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace moonpool::storage_node {
namespace {

// Whoever is to have the bytes that a copy comes into waits for the end of a step, under the
// segment's lock (SegmentClaim::Revoke).
constexpr size_t kStepBytes = 256 * 1024;

}  // namespace

CopyThreads::CopyThreads(CopyThreadsOptions options, ExtentIndex& index, const Clock& clock,
                         metrics::Registry& registry)
    : options_(std::move(options)),
      metrics_(registry),
      waiter_(clock),
      shm_(transport::NewShmTransport(
          {.host_id = options_.host_id, .progress_bytes = kStepBytes, .mapped_writes = false},
          clock)),
      tcp_(transport::NewTcpTransport({.progress_bytes = kStepBytes}, clock)) {
  for (int i = 0; i < options_.threads; ++i) {
    workers_.push_back(std::make_unique<CopyWorker>(
        CopyWorker::Dependencies{.queue = queue_,
                                 .index = index,
                                 .transports = {shm_.get(), tcp_.get()},
                                 .waiter = waiter_,
                                 .metrics = metrics_}));
  }
  // Whoever sleeps looks again when the lock is released.
  queue_.SetOnQueued([this] { absl::MutexLock lock(&mutex_); });
}

CopyThreads::~CopyThreads() { MP_CHECK(threads_.empty(), "the copies run on"); }

void CopyThreads::Start() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("copy-", i).c_str());
      Run(*workers_[i]);
    });
  }
}

void CopyThreads::Run(CopyWorker& worker) {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return is_stopping_ || queue_.has_waiting();
      };
      mutex_.Await(absl::Condition(&has_news));
      if (is_stopping_) return;
    }
    worker.RunNext();
  }
}

void CopyThreads::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  queue_.EndSession();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace moonpool::storage_node
