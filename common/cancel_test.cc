#include "common/cancel.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace moonpool {
namespace {

TEST(Cancel, RunsTheCallbackOnceAndMakesTheDescriptorReadable) {
  CancelSource source;
  const CancelToken token = source.token();
  int runs = 0;
  const CancelCallback callback = token.OnCancel([&runs] { ++runs; });
  EXPECT_FALSE(token.cancelled());
  source.Cancel();
  source.Cancel();
  EXPECT_TRUE(token.cancelled());
  EXPECT_EQ(runs, 1);
  pollfd readable{.fd = token.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 0), 1);
}

TEST(Cancel, ADestroyedCallbackDoesNotRun) {
  CancelSource source;
  int runs = 0;
  {
    const CancelCallback callback = source.token().OnCancel([&runs] { ++runs; });
  }
  source.Cancel();
  EXPECT_EQ(runs, 0);
}

TEST(Cancel, RegisteringAfterwardsRunsAtOnce) {
  CancelSource source;
  source.Cancel();
  int runs = 0;
  const CancelCallback callback = source.token().OnCancel([&runs] { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(Cancel, TheDefaultTokenIsNeverCancelled) {
  EXPECT_FALSE(CancelToken().cancelled());
  EXPECT_EQ(CancelToken().fd(), -1);
}

}  // namespace
}  // namespace moonpool
