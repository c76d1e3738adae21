// What ThreadSanitizer must take as synchronised: it reports a race here when a way to lock is
// missing from absl_mutex.cc. Without ThreadSanitizer it passes trivially.

#include "absl/synchronization/mutex.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace moonpool {
namespace {

TEST(AbslMutex, LockedCountersAreNoRace) {
  absl::Mutex mutex;
  int count = 0;
  const auto add = [&] {
    for (int i = 0; i < 1000; ++i) {
      absl::MutexLock lock(&mutex);
      ++count;
    }
    while (!mutex.TryLock()) std::this_thread::yield();
    ++count;
    mutex.Unlock();
  };
  std::thread other(add);
  add();
  other.join();
  absl::ReaderMutexLock lock(&mutex);
  EXPECT_EQ(count, 2002);
}

TEST(AbslMutex, ConditionsMaySeeWhatTheMutexGuards) {
  absl::Mutex mutex;
  int turn = 0;  // odd: the other's
  const auto is_even = [&turn] { return turn % 2 == 0; };
  const auto is_odd = [&turn] { return turn % 2 == 1; };
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      absl::MutexLock lock(&mutex, absl::Condition(&is_odd));
      ++turn;
    }
  });
  for (int i = 0; i < 100; ++i) {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&is_even));
    ++turn;
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&is_even), absl::InfiniteDuration()));
  }
  other.join();
  EXPECT_EQ(turn, 200);
}

TEST(AbslMutex, ConditionVariablesHandOver) {
  absl::Mutex mutex;
  absl::CondVar changed;
  bool is_ready = false;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    is_ready = true;
    changed.SignalAll();
  });
  {
    absl::MutexLock lock(&mutex);
    while (!is_ready) changed.Wait(&mutex);
  }
  other.join();
}

TEST(AbslMutex, NotificationsAndCountersPublish) {
  int value = 0;
  absl::Notification done;
  absl::BlockingCounter count(1);
  std::thread other([&] {
    value = 1;
    done.Notify();
    done.WaitForNotification();
    value = 2;
    count.DecrementCount();
  });
  done.WaitForNotification();
  count.Wait();
  EXPECT_EQ(value, 2);
  other.join();
}

}  // namespace
}  // namespace moonpool
