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

SharedHandlers::SharedHandlers(Mastership mastership, const HandlersOptions& options,
                               const Clock& clock, ServiceMetrics& metrics, MetaWriter& writer)
    : clock_(clock),
      metrics_(metrics),
      writer_(writer),
      reigns_(mastership, leadership_, options) {}

SharedHandlers::~SharedHandlers() {
  MP_CHECK(!timer_.joinable(), "the timer thread still runs");
  const int64_t calls = calls_.load(std::memory_order_acquire);
  MP_CHECK(calls == 0, "calls outlive the handlers", calls);
}

void SharedHandlers::Run(absl::FunctionRef<void(Reigns&, absl::Time)> call) {
  absl::InlinedVector<Action, 2> actions;
  absl::Duration held;
  {
    absl::MutexLock lock(&mutex_);
    // Read under the lock: the time line of the core never goes back.
    const absl::Time now = clock_.Now();
    call(reigns_, now);
    PostWrite(now);
    actions.swap(posted_);
    if (reigns_.NextWakeup() < timer_due_) timer_wakes_.Signal();
    held = clock_.Now() - now;
  }
  metrics_.lock_held.Observe(held);
  for (Action& action : actions) std::move(action)();
}

void SharedHandlers::PostWrite(absl::Time now) {
  if (is_stopping_) return;
  std::optional<Reigns::DueWrite> write = reigns_.TakeWrite(now);
  if (!write.has_value()) return;
  Post([this, due = *std::move(write)]() mutable { Write(std::move(due)); });
}

void SharedHandlers::Write(Reigns::DueWrite write) {
  writer_.Write(
      *write.store, std::move(write.batch),
      [this, reign = write.reign](const absl::Status& status) {
        Run([&](Reigns& reigns, absl::Time now) { reigns.OnWritten(reign, status, now); });
        std::optional<Reigns::DueWrite> next;
        {
          absl::MutexLock lock(&mutex_);
          // The last use of *this, and of the store, when there is none.
          next = reigns_.EndWrite(reign, !is_stopping_, clock_.Now());
        }
        if (next.has_value()) Write(*std::move(next));
      });
}

SharedHandlers::ReignWork SharedHandlers::AwaitReignWork(Reign is_resting, absl::Duration rest) {
  absl::MutexLock lock(&mutex_);
  const auto has_other_work = [this, is_resting]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto& to_begin = reigns_.to_begin();
    return is_work_over_ || reigns_.has_ended() ||
           (to_begin.has_value() && to_begin->reign != is_resting);
  };
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_work_over_ || reigns_.has_ended() || reigns_.to_begin().has_value();
  };
  const bool is_rested = !mutex_.AwaitWithTimeout(absl::Condition(&has_other_work), rest);
  if (is_rested) mutex_.Await(absl::Condition(&has_work));
  ReignWork work{
      .to_begin = reigns_.to_begin(), .ended = reigns_.TakeEnded(), .is_over = is_work_over_};
  if (!is_rested && work.to_begin.has_value() && work.to_begin->reign == is_resting) {
    work.to_begin.reset();
  }
  return work;
}

void SharedHandlers::EndReignWork() {
  absl::MutexLock lock(&mutex_);
  is_work_over_ = true;
}

Reign SharedHandlers::present_reign() const {
  absl::MutexLock lock(&mutex_);
  return reigns_.present() == nullptr ? Reign{} : reigns_.present()->reign;
}

bool SharedHandlers::is_deposed() const {
  absl::MutexLock lock(&mutex_);
  return reigns_.is_deposed();
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
    Run([&](Reigns& reigns, absl::Time now) {
      reigns.Tick(now);
      if (now < publish_at) return;
      publish_at = now + kPublishInterval;
      metrics_.Publish(reigns, leadership_, now);
    });
    absl::MutexLock lock(&mutex_);
    if (is_stopping_) return;
    // A master that serves nobody has its metrics to look after.
    timer_due_ = std::min(reigns_.NextWakeup(), publish_at);
    const absl::Duration rest = std::max(timer_due_ - clock_.Now(), kShortestRest);
    timer_wakes_.WaitWithTimeout(&mutex_, rest);
    timer_due_ = absl::InfinitePast();
    if (is_stopping_) return;
  }
}

}  // namespace moonpool::master
