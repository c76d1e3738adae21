#include "client_sdk/python/src/completions.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace moonpool::python {
namespace {

// The kernel's name for the event of a descriptor. "": it is another file's, or nobody's.
std::string EventOf(int fd) {
  std::ifstream info(absl::StrCat("/proc/self/fdinfo/", fd));
  for (std::string line; std::getline(info, line);) {
    if (absl::StartsWith(line, "eventfd-id:")) return line;
  }
  return "";
}

}  // namespace

Completions::Completions()
    : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      handed_out_(fcntl(event_.get(), F_DUPFD_CLOEXEC, 0)) {}

Completions::~Completions() {
  // It may have been closed, and be another file's number since. Where that cannot be known it
  // stays open: that is the lesser evil.
  const std::string event = EventOf(event_.get());
  if (!event.empty() && EventOf(handed_out_) == event) close(handed_out_);
}

void Completions::Add(Completion completion) {
  absl::MutexLock lock(&mutex_);
  ready_.push_back(std::move(completion));
  Wake();
}

void Completions::Wake() {
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
