#include "transport/stream/io_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace moonpool::transport {
namespace {

constexpr size_t kScratchBytes = 64 * 1024;
constexpr int kEventsMax = 128;

// Often enough for the shortest of the timeouts, and never busy.
absl::Duration SweepPeriod(const StreamServerLimits& limits) {
  const absl::Duration shortest =
      std::min({limits.handshake_timeout, limits.stall_timeout, limits.idle_timeout});
  return std::clamp(shortest / 4, absl::Milliseconds(5), absl::Seconds(1));
}

}  // namespace

IoLoop::IoLoop(int index, Target& target, StreamBackend& backend, const StreamServerLimits& limits,
               const Clock& clock)
    : index_(index),
      scratch_(kScratchBytes),
      scope_{target, backend, limits, clock, counters_, absl::MakeSpan(scratch_)},
      sweep_period_(SweepPeriod(limits)) {}

IoLoop::~IoLoop() { MP_CHECK(!thread_.joinable(), "io loop destroyed while it runs", index_); }

absl::Status IoLoop::Start(int listener, Acceptor* acceptor) {
  acceptor_ = acceptor;
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return SocketError("epoll", errno);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &wake_}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return SocketError("epoll", errno);
  }
  event = {.events = EPOLLIN, .data = {.ptr = acceptor}};
  if (acceptor != nullptr && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener, &event) != 0) {
    return SocketError("epoll", errno);
  }
  next_sweep_ = scope_.clock.Now() + sweep_period_;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void IoLoop::Stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  thread_.join();
  absl::MutexLock lock(&mutex_);
  handovers_.clear();
}

void IoLoop::Adopt(UniqueFd fd, absl::Status refusal) {
  load_.fetch_add(1, std::memory_order_relaxed);
  {
    absl::MutexLock lock(&mutex_);
    handovers_.push_back({std::move(fd), std::move(refusal)});
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void IoLoop::Run() {
  pthread_setname_np(pthread_self(), absl::StrCat("io-", index_).c_str());
  std::array<epoll_event, kEventsMax> events;
  // Acquire: what was done before the stop (StreamBackend::WillStop) is seen by who ends of it.
  while (!stopping_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsMax, WaitMillis());
    for (int i = 0; i < count; ++i) {
      void* const source = events[static_cast<size_t>(i)].data.ptr;
      if (source == &wake_) {
        TakeHandovers();
      } else if (source == acceptor_) {
        acceptor_->OnAcceptable();
      } else {
        MarkReady(*static_cast<Slot*>(source));
      }
    }
    // One turn for each; who needs more goes behind the others.
    turn_.swap(ready_);
    for (Slot* slot : turn_) {
      slot->is_ready = false;
      TakeTurn(*slot);
    }
    turn_.clear();
    if (scope_.clock.Now() >= next_sweep_) CloseOverdue();
  }
  ready_.clear();
  slots_.clear();
}

int IoLoop::WaitMillis() const {
  if (!ready_.empty()) return 0;
  if (slots_.empty()) return -1;
  const absl::Duration left = next_sweep_ - scope_.clock.Now();
  const auto period_ms = absl::ToInt64Milliseconds(sweep_period_);
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 0, period_ms));
}

void IoLoop::TakeHandovers() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
  std::vector<Handover> handovers;
  {
    absl::MutexLock lock(&mutex_);
    handovers.swap(handovers_);
  }
  for (Handover& handover : handovers) Add(std::move(handover));
}

void IoLoop::Add(Handover handover) {
  scope_.backend.Prepare(handover.fd.get());
  auto slot = std::make_unique<Slot>();
  slot->connection = std::make_unique<ServerConnection>(std::move(handover.fd), scope_);
  if (!handover.refusal.ok()) {
    counters_.connections_refused.Add(1);
    slot->connection->Refuse(handover.refusal);
  }
  slot->armed_events = slot->connection->wanted_events();
  epoll_event event{.events = slot->armed_events, .data = {.ptr = slot.get()}};
  Slot& added = *slot;
  slots_.emplace(slot.get(), std::move(slot));
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, added.connection->fd(), &event) != 0) {
    return Remove(added);
  }
  if (!handover.refusal.ok()) MarkReady(added);
}

void IoLoop::MarkReady(Slot& slot) {
  if (slot.is_ready) return;
  slot.is_ready = true;
  ready_.push_back(&slot);
}

void IoLoop::TakeTurn(Slot& slot) {
  switch (slot.connection->TakeTurn()) {
    case ServerConnection::Next::kClosed: return Remove(slot);
    case ServerConnection::Next::kTurn: return MarkReady(slot);
    case ServerConnection::Next::kWait: break;
  }
  const uint32_t wanted = slot.connection->wanted_events();
  if (wanted == slot.armed_events) return;
  epoll_event event{.events = wanted, .data = {.ptr = &slot}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, slot.connection->fd(), &event) != 0) {
    return Remove(slot);
  }
  slot.armed_events = wanted;
}

// The slot is in neither list when this is called; closing the socket takes it out of epoll.
void IoLoop::Remove(Slot& slot) {
  slots_.erase(&slot);
  load_.fetch_sub(1, std::memory_order_relaxed);
}

void IoLoop::CloseOverdue() {
  const absl::Time now = scope_.clock.Now();
  next_sweep_ = now + sweep_period_;
  for (const auto& [key, slot] : slots_) {
    if (slot->connection->IsOverdue(now)) turn_.push_back(slot.get());
  }
  for (Slot* slot : turn_) {
    std::erase(ready_, slot);
    Remove(*slot);
  }
  turn_.clear();
}

}  // namespace moonpool::transport
