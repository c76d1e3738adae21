#include "common/spin.h"

#include <gtest/gtest.h>

#include "common/testing/fake_clock.h"

namespace moonpool {
namespace {

struct SpinTest : testing::Test {
  // How many of so many tries looked.
  int LooksOf(int tries, bool finds = false) {
    int looked = 0;
    for (int i = 0; i < tries; ++i) {
      bool has_looked = false;
      const bool has_found = spin.Try(clock, clock.Now(), [&] {
        has_looked = true;
        return finds;
      });
      EXPECT_EQ(has_found, finds && has_looked);
      looked += has_looked ? 1 : 0;
    }
    return looked;
  }

  FakeClock clock;
  Spin spin{absl::Microseconds(50)};
};

TEST_F(SpinTest, IsTriedSeldomWhereItDoesNotPay) {
  EXPECT_EQ(LooksOf(1), 1);
  EXPECT_EQ(LooksOf(16), 0);
  EXPECT_EQ(LooksOf(1), 1);
  EXPECT_EQ(LooksOf(16), 0);
  EXPECT_EQ(LooksOf(100, /*finds=*/true), 100);
  EXPECT_EQ(LooksOf(5), 5);
  EXPECT_EQ(LooksOf(16), 0);
}

TEST_F(SpinTest, EndsAtTheDeadlineOrAfterTheLongestTime) {
  const auto looks_until = [&](absl::Time deadline) {
    int looks = 0;
    Spin fresh(absl::Microseconds(50));
    EXPECT_FALSE(fresh.Try(clock, deadline, [&] {
      clock.Advance(absl::Microseconds(10));
      ++looks;
      return false;
    }));
    return looks;
  };
  EXPECT_EQ(looks_until(absl::InfiniteFuture()), 5);
  EXPECT_EQ(looks_until(clock.Now() + absl::Microseconds(20)), 2);
  EXPECT_EQ(looks_until(clock.Now() - absl::Seconds(1)), 1);
}

TEST_F(SpinTest, OfNoTimeNeverLooks) {
  Spin none(absl::ZeroDuration());
  EXPECT_FALSE(none.Try(clock, absl::InfiniteFuture(), [] {
    ADD_FAILURE() << "looked";
    return true;
  }));
}

}  // namespace
}  // namespace moonpool
