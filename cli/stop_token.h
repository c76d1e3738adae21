// Ctrl-C as the cancellation of a call.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <thread>

#include "cli/dev_cluster/stop_fd.h"
#include "common/cancel.h"

namespace moonpool::cli {

// Made before any thread. The first SIGINT, SIGTERM or SIGHUP cancels.
class StopToken {
 public:
  StopToken()
      : thread_([this] {
          pthread_setname_np(pthread_self(), "signals");
          pollfd waits[] = {{stop_.fd(), POLLIN, 0}, {done_.token().fd(), POLLIN, 0}};
          while (poll(waits, 2, -1) < 0) {  // interrupted
          }
          source_.Cancel();
        }) {}
  ~StopToken() {
    done_.Cancel();
    thread_.join();
  }
  StopToken(const StopToken&) = delete;
  StopToken& operator=(const StopToken&) = delete;

  CancelToken token() const { return source_.token(); }

 private:
  const dev::StopFd stop_;
  CancelSource done_;
  CancelSource source_;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace moonpool::cli
