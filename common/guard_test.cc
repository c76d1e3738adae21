#include "common/guard.h"

#include <gtest/gtest.h>

namespace moonpool {
namespace {

// A build with a switch has no unit tests of its own: this one is of all the others.
static_assert(GuardIsOn(Guard{0}) && GuardIsOn(Guard{kGuards - 1}), "a guard that can be off");

TEST(Guard, IsAConstant) {
  for (int i = 0; i < kGuards; ++i) EXPECT_TRUE(GuardIsOn(static_cast<Guard>(i)));
}

}  // namespace
}  // namespace moonpool
