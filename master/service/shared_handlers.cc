#include "master/service/shared_handlers.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace moonpool::master {
namespace {

// Between two ticks the others get the lock, whatever there is to do.
constexpr absl::Duration kShortestRest = absl::Milliseconds(1);
constexpr absl::Duration kPublishInterval = absl::Milliseconds(250);

}  // namespace

SharedHandlers::SharedHandlers(std::unique_ptr<Core> core, const HandlersOptions& options,
                               const Clock& clock, ServiceMetrics& metrics)
    : clock_(clock),
      metrics_(metrics),
      core_(std::move(core)),
      handlers_(*core_, options, clock.Now()) {}

SharedHandlers::~SharedHandlers() {
  MP_CHECK(!timer_.joinable(), "the timer thread still runs");
  const int64_t calls = calls_.load(std::memory_order_acquire);
  MP_CHECK(calls == 0, "calls outlive the handlers", calls);
}

void SharedHandlers::Run(absl::FunctionRef<void(Handlers&, absl::Time)> call) {
  absl::InlinedVector<Action, 2> actions;
  absl::Duration held;
  {
    absl::MutexLock lock(&mutex_);
    // Read under the lock: the time line of the core never goes back.
    const absl::Time now = clock_.Now();
    call(handlers_, now);
    actions.swap(posted_);
    if (handlers_.NextWakeup() < timer_due_) timer_wakes_.Signal();
    held = clock_.Now() - now;
  }
  metrics_.lock_held.Observe(held);
  for (Action& action : actions) std::move(action)();
}

void SharedHandlers::Post(Action action) {
  mutex_.AssertHeld();
  posted_.push_back(std::move(action));
}

void SharedHandlers::Start() {
  timer_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "timer");
    RunTimer();
  });
}

void SharedHandlers::Stop() {
  if (!timer_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
    timer_wakes_.Signal();
  }
  timer_.join();
}

void SharedHandlers::RunTimer() {
  absl::Time publish_at = absl::InfinitePast();
  while (true) {
    Run([&](Handlers& handlers, absl::Time now) {
      mutex_.AssertHeld();
      handlers.Tick(now);
      if (now < publish_at) return;
      publish_at = now + kPublishInterval;
      metrics_.Publish(handlers, core_->GetStatus(now));
    });
    absl::MutexLock lock(&mutex_);
    if (is_stopping_) return;
    timer_due_ = handlers_.NextWakeup();
    const absl::Duration rest = std::max(timer_due_ - clock_.Now(), kShortestRest);
    timer_wakes_.WaitWithTimeout(&mutex_, rest);
    timer_due_ = absl::InfinitePast();
    if (is_stopping_) return;
  }
}

}  // namespace moonpool::master
