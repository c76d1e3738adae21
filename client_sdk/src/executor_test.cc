#include "client_sdk/src/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <string>

#include "absl/synchronization/notification.h"

namespace moonpool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST(Executor, RunsTasksInOrderOnItsNamedThreads) {
  std::vector<int> order;
  std::string name;
  absl::Notification done;
  Executor executor(1, 10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(executor.Post([&order, i](bool) { order.push_back(i); }));
  }
  EXPECT_TRUE(executor.Post([&](bool) {
    char buffer[16];
    pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
    name = buffer;
    done.Notify();
  }));
  done.WaitForNotification();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  EXPECT_THAT(name, StartsWith("sdk-"));
}

TEST(Executor, RefusesMoreThanItsQueueHolds) {
  absl::Notification started, go;
  Executor executor(1, 2);
  EXPECT_TRUE(executor.Post([&](bool) {
    started.Notify();
    go.WaitForNotification();
  }));
  started.WaitForNotification();
  EXPECT_TRUE(executor.Post([](bool) {}));
  EXPECT_TRUE(executor.Post([](bool) {}));
  EXPECT_FALSE(executor.Post([](bool) {}));
  go.Notify();
}

TEST(Executor, TellsWaitingTasksThatItStops) {
  absl::Notification started, go, stopping;
  std::atomic<int> told{0};
  Executor executor(1, 10);
  executor.Post([&](bool is_stopping) {
    EXPECT_FALSE(is_stopping);
    started.Notify();
    go.WaitForNotification();
  });
  started.WaitForNotification();
  for (int i = 0; i < 5; ++i) {
    executor.Post([&](bool is_stopping) { told += is_stopping ? 1 : 0; });
  }
  std::thread stopper([&] {
    stopping.Notify();
    executor.Stop();
  });
  stopping.WaitForNotification();
  // Refused once Stop has begun, which is what the running task waits for.
  while (executor.Post([](bool) {})) std::this_thread::yield();
  go.Notify();
  stopper.join();
  EXPECT_EQ(told, 5);
}

TEST(Executor, StoppingItInATaskOfItsOwnIsRefusedWithItsReason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        absl::Notification stopped;
        Executor executor(1, 1);
        executor.Post([&](bool) {
          executor.Stop();
          stopped.Notify();
        });
        stopped.WaitForNotification();
      },
      "destroyed in, or with, a callback of its own");
}

}  // namespace
}  // namespace moonpool::client
