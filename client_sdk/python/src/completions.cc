#include "client_sdk/python/src/completions.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace moonpool::python {

Completions::Completions() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Completions::Add(Completion completion) {
  absl::MutexLock lock(&mutex_);
  ready_.push_back(std::move(completion));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

std::vector<Completion> Completions::Take() {
  absl::MutexLock lock(&mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = read(event_.get(), &count, sizeof(count));
  return std::exchange(ready_, {});
}

}  // namespace moonpool::python
