#include "common/program/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/time/time.h"
#include "common/check.h"

namespace moonpool {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = StopSet();
  MP_CHECK(pthread_sigmask(SIG_BLOCK, &set, &old_mask_) == 0, "pthread_sigmask");
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  quit_fd_ = eventfd(0, EFD_CLOEXEC);
  MP_CHECK(signal_fd_ >= 0 && quit_fd_ >= 0, "no descriptors for signals", errno);
  thread_ = std::thread([this] { Run(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  MP_CHECK(write(quit_fd_, &one, sizeof one) == sizeof one, "eventfd", errno);
  thread_.join();
  close(signal_fd_);
  close(quit_fd_);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void StopSignals::Run() {
  pthread_setname_np(pthread_self(), "signals");
  for (;;) {
    pollfd polls[] = {{signal_fd_, POLLIN, 0}, {quit_fd_, POLLIN, 0}};
    poll(polls, 2, -1);
    if (polls[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != sizeof info) continue;
    if (is_requested()) _exit(128 + static_cast<int>(info.ssi_signo));
    Request();
  }
}

void StopSignals::Request() {
  absl::MutexLock lock(&mutex_);
  is_requested_ = true;
  stops_.SignalAll();
}

bool StopSignals::is_requested() const {
  absl::MutexLock lock(&mutex_);
  return is_requested_;
}

void StopSignals::Wait() const { WaitFor(absl::InfiniteDuration()); }

bool StopSignals::WaitFor(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  const auto is_requested = [this]()
                                ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return is_requested_; };
  return stops_.Await(&mutex_, timeout, is_requested);
}

}  // namespace moonpool
