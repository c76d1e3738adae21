#include "client_sdk/src/executor.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace moonpool::client {

bool Executor::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (is_stopping_ || queue_.size() >= queue_max_) return false;
  queue_.push_back(std::move(task));
  if (threads_.size() < threads_max_) {
    const std::string name = absl::StrCat("sdk-", threads_.size());
    threads_.emplace_back([this, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      Work();
    });
  }
  return true;
}

void Executor::Work() {
  while (true) {
    Task task;
    bool is_stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Executor::HasWork));
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
      is_stopping = is_stopping_;
    }
    task(is_stopping);
  }
}

void Executor::Stop() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::thread& thread : threads_) {
      MP_CHECK(thread.get_id() != std::this_thread::get_id(),
               "a moonpool::Client is destroyed in, or with, a callback of its own");
    }
    is_stopping_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace moonpool::client
