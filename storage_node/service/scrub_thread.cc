#include "storage_node/service/scrub_thread.h"

#include <pthread.h>

#include <algorithm>

#include "common/check.h"

namespace moonpool::storage_node {

ScrubThread::~ScrubThread() { MP_CHECK(!thread_.joinable(), "the scrubber runs on"); }

void ScrubThread::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "scrub");
    Run();
  });
}

void ScrubThread::Run() {
  while (true) {
    const absl::Time next = scrubber_->Step(clock_.Now());
    const absl::Duration wait = std::max(next - clock_.Now(), absl::ZeroDuration());
    absl::MutexLock lock(&mutex_);
    const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return is_stopping_ || is_woken_;
    };
    news_.Await(&mutex_, wait, has_news);
    if (is_stopping_) return;
    is_woken_ = false;
  }
}

void ScrubThread::Wake() {
  absl::MutexLock lock(&mutex_);
  is_woken_ = true;
  news_.Signal();
}

void ScrubThread::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
    news_.Signal();
  }
  thread_.join();
}

}  // namespace moonpool::storage_node
