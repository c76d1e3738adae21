#include "master/service/shared_handlers.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace moonpool::master {
namespace {

// Between two ticks the others get the lock for as long as the first one had it, whatever there is
// to do.
constexpr absl::Duration kShortestRest = absl::Microseconds(100);
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
    reigns_.Observe(now);
    call(reigns_, now);
    PostWrite(now);
    actions.swap(posted_);
    if (reigns_.NextWakeup() < timer_due_) timer_wakes_.Signal();
    if (reigns_.to_begin().has_value() || reigns_.has_ended()) work_comes_.Signal();
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
          // The write may be all that held on to a reign that is over.
          if (reigns_.has_ended()) work_comes_.Signal();
        }
        if (next.has_value()) Write(*std::move(next));
      });
}

SharedHandlers::ReignWork SharedHandlers::AwaitReignWork(Reign resting, absl::Time not_before) {
  absl::MutexLock lock(&mutex_);
  ReignWork work;
  while (true) {
    const absl::Duration rest = not_before - clock_.Now();
    const auto& to_begin = reigns_.to_begin();
    const bool is_resting =
        to_begin.has_value() && to_begin->reign == resting && rest > absl::ZeroDuration();
    work = {.to_begin = is_resting ? std::nullopt : to_begin,
            .ended = reigns_.TakeEnded(),
            .is_over = is_work_over_};
    if (work.is_over || work.to_begin.has_value() || !work.ended.empty()) return work;
    work_comes_.WaitFor(&mutex_, is_resting ? rest : absl::InfiniteDuration());
  }
}

void SharedHandlers::EndReignWork() {
  absl::MutexLock lock(&mutex_);
  is_work_over_ = true;
  work_comes_.Signal();
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
    absl::Duration worked;
    Run([&](Reigns& reigns, absl::Time now) {
      reigns.Tick(now);
      worked = clock_.Now() - now;
      if (now < publish_at) return;
      publish_at = now + kPublishInterval;
      metrics_.Publish(reigns, leadership_, now);
    });
    absl::MutexLock lock(&mutex_);
    if (is_stopping_) return;
    // A master that serves nobody has its metrics to look after.
    timer_due_ = std::min(reigns_.NextWakeup(), publish_at);
    timer_wakes_.WaitFor(&mutex_, std::max({timer_due_ - clock_.Now(), worked, kShortestRest}));
    timer_due_ = absl::InfinitePast();
    if (is_stopping_) return;
  }
}

}  // namespace moonpool::master
