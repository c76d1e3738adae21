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
                               const Clock& clock, ServiceMetrics& metrics, MetaWriter* writer)
    : clock_(clock),
      metrics_(metrics),
      writer_(writer),
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
    PostWrite(now);
    actions.swap(posted_);
    if (handlers_.NextWakeup() < timer_due_) timer_wakes_.Signal();
    held = clock_.Now() - now;
  }
  metrics_.lock_held.Observe(held);
  for (Action& action : actions) std::move(action)();
}

void SharedHandlers::PostWrite(absl::Time now) {
  if (writer_ == nullptr || is_writing_ || is_stopping_) return;
  std::optional<MetaBatch> batch = handlers_.TakeWrite(now);
  if (!batch.has_value()) return;
  is_writing_ = true;
  Post([this, write = *std::move(batch)]() mutable { Write(std::move(write)); });
}

void SharedHandlers::Write(MetaBatch batch) {
  writer_->Write(std::move(batch), [this](const absl::Status& status) {
    Run([&](Handlers& handlers, absl::Time now) { handlers.OnWritten(status, now); });
    std::optional<MetaBatch> next;
    {
      absl::MutexLock lock(&mutex_);
      if (!is_stopping_) next = handlers_.TakeWrite(clock_.Now());
      is_writing_ = next.has_value();  // the last use of *this when there is none
    }
    if (next.has_value()) Write(*std::move(next));
  });
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
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
    timer_wakes_.Signal();
    // The store ends every write that it was given.
    mutex_.Await(absl::Condition(this, &SharedHandlers::is_not_writing));
  }
  if (timer_.joinable()) timer_.join();
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
