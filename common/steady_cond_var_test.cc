#include "common/steady_cond_var.h"

#include <gtest/gtest.h>

#include <thread>

#include "common/clock.h"

namespace moonpool {
namespace {

TEST(SteadyCondVar, AWaitEndsWithItsTime) {
  absl::Mutex mutex;
  SteadyCondVar news;
  const SteadyClock clock;
  const absl::Time begun = clock.Now();
  absl::MutexLock lock(&mutex);
  EXPECT_FALSE(news.Await(&mutex, absl::Milliseconds(5), [] { return false; }));
  EXPECT_GE(clock.Now() - begun, absl::Milliseconds(5));
}

TEST(SteadyCondVar, WhatIsDueIsNotWaitedFor) {
  absl::Mutex mutex;
  SteadyCondVar news;
  absl::MutexLock lock(&mutex);
  EXPECT_TRUE(news.Await(&mutex, -absl::InfiniteDuration(), [] { return true; }));
}

TEST(SteadyCondVar, ASignalEndsAWaitThatHasNoEnd) {
  absl::Mutex mutex;
  SteadyCondVar news;
  bool is_due = false;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    is_due = true;
    news.Signal();
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(news.Await(&mutex, absl::InfiniteDuration(), [&] { return is_due; }));
  }
  other.join();
}

}  // namespace
}  // namespace moonpool
