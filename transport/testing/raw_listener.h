// A listening socket whose connections are answered by a script, for tests of clients.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::transport {

class RawListener {
 public:
  // Takes a bound and listening socket, which may block. The script runs on a thread per connection
  // and ends when its socket is shut down.
  RawListener(int listening_fd, std::function<void(int fd)> script);
  // Shuts everything down and joins.
  ~RawListener();

 private:
  void Accept();

  const int listening_fd_;
  const std::function<void(int fd)> script_;
  absl::Mutex mutex_;
  std::vector<int> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace moonpool::transport
