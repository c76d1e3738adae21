#include "cli/kv_events/idle_beat.h"

#include <gtest/gtest.h>

namespace moonpool::cli {
namespace {

TEST(IdleBeatTest, ComesSoonAfterEventsAndThenMoreRarely) {
  IdleBeat beat;
  absl::Time now = absl::UnixEpoch();
  EXPECT_FALSE(beat.IsDue(now + absl::Hours(1)));  // nothing was published
  beat.OnPublished(now);
  EXPECT_FALSE(beat.IsDue(now));
  EXPECT_TRUE(beat.IsDue(now += absl::Seconds(1)));
  EXPECT_FALSE(beat.IsDue(now));
  int beats = 0;
  for (int second = 0; second < 3600; ++second) beats += beat.IsDue(now += absl::Seconds(1));
  EXPECT_GE(beats, 60);  // once a minute, and in the first one a few more
  EXPECT_LE(beats, 70);
  beat.OnPublished(now);
  EXPECT_TRUE(beat.IsDue(now + absl::Seconds(1)));
}

}  // namespace
}  // namespace moonpool::cli
