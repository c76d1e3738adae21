// SIGINT, SIGTERM and SIGHUP as a descriptor that becomes readable: a loop can wait for it beside
// other things, and nothing is interrupted.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "common/unique_fd.h"

namespace moonpool::dev {

// Made before any thread. The signals are taken back when it goes.
class StopFd {
 public:
  StopFd() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &old_);
    fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~StopFd() {
    signalfd_siginfo taken;  // what asked us to stop must not end us when it is let through
    while (read(fd_.get(), &taken, sizeof(taken)) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  StopFd(const StopFd&) = delete;
  StopFd& operator=(const StopFd&) = delete;

  int fd() const { return fd_.get(); }
  bool is_requested() const {
    pollfd wait = {fd_.get(), POLLIN, 0};
    return poll(&wait, 1, 0) > 0;
  }

 private:
  sigset_t old_;
  UniqueFd fd_;
};

}  // namespace moonpool::dev
