#include "transport/testing/raw_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace moonpool::transport {

RawListener::RawListener(int listening_fd, std::function<void(int fd)> script)
    : listening_fd_(listening_fd), script_(std::move(script)) {
  acceptor_ = std::thread([this] { Accept(); });
}

void RawListener::Accept() {
  while (true) {
    const int fd = accept(listening_fd_, nullptr, nullptr);
    if (fd < 0) return;
    absl::MutexLock lock(&mutex_);
    connections_.push_back(fd);
    threads_.emplace_back([this, fd] { script_(fd); });
  }
}

RawListener::~RawListener() {
  shutdown(listening_fd_, SHUT_RDWR);
  acceptor_.join();
  close(listening_fd_);
  absl::MutexLock lock(&mutex_);
  for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int fd : connections_) close(fd);
}

}  // namespace moonpool::transport
