#include "transport/sim/scheduler.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/sim/network.h"

namespace moonpool::sim {
namespace {

TEST(Scheduler, EventsRunInTimeOrderAndThenInTheOrderTheyWereMade) {
  Scheduler scheduler;
  std::string order;
  scheduler.After(absl::Seconds(2), [&] { order += "c"; });
  scheduler.After(absl::Seconds(1), [&] { order += "a"; });
  scheduler.After(absl::Seconds(1), [&] { order += "b"; });
  scheduler.Run(absl::InfiniteFuture());
  EXPECT_EQ(order, "abc");
}

TEST(Scheduler, ActorsInterleaveAtBlocksAlone) {
  Scheduler scheduler;
  std::string order;
  const absl::Time start = scheduler.Now();
  for (const std::string name : {"x", "y"}) {
    scheduler.Spawn(name, [&order, &scheduler, name] {
      order += name + "1";
      scheduler.Sleep(absl::Hours(name == "x" ? 2 : 1));
      order += name + "2";
    });
  }
  scheduler.Run(absl::InfiniteFuture());
  EXPECT_EQ(order, "x1y1y2x2");
  EXPECT_EQ(scheduler.Now() - start, absl::Hours(2));
  EXPECT_EQ(scheduler.live_actors(), 0u);
}

TEST(Scheduler, WakeEndsABlockEarlyAndOnlyOnce) {
  Scheduler scheduler;
  absl::Time woken;
  const absl::Time start = scheduler.Now();
  scheduler.Spawn("sleeper", [&] {
    const uint64_t token = scheduler.NewToken();
    scheduler.After(absl::Seconds(1), [&scheduler, token] { scheduler.Wake(token); });
    scheduler.After(absl::Seconds(2), [&scheduler, token] { scheduler.Wake(token); });
    scheduler.Block(token, start + absl::Seconds(9));
    woken = scheduler.Now();
    scheduler.Sleep(absl::Seconds(4));
  });
  scheduler.Run(absl::InfiniteFuture());
  EXPECT_EQ(woken - start, absl::Seconds(1));
}

TEST(Scheduler, FrozenActorsGoOnWhenTheyThaw) {
  Scheduler scheduler;
  const absl::Time start = scheduler.Now();
  absl::Time woken;
  scheduler.Spawn("frozen", [&] {
    scheduler.Sleep(absl::Seconds(1));
    woken = scheduler.Now();
  });
  scheduler.After(absl::Milliseconds(1), [&] { scheduler.Freeze("frozen"); });
  scheduler.After(absl::Seconds(5), [&] { scheduler.Thaw("frozen"); });
  scheduler.Run(absl::InfiniteFuture());
  EXPECT_EQ(woken - start, absl::Seconds(5));
  EXPECT_EQ(scheduler.live_actors(), 0u);
}

TEST(Scheduler, AThawThatComesBeforeTheWakeUpChangesNothing) {
  Scheduler scheduler;
  const absl::Time start = scheduler.Now();
  absl::Time woken;
  scheduler.Spawn("frozen", [&] {
    scheduler.Sleep(absl::Seconds(5));
    woken = scheduler.Now();
  });
  scheduler.After(absl::Milliseconds(1), [&] { scheduler.Freeze("frozen"); });
  scheduler.After(absl::Seconds(1), [&] { scheduler.Thaw("frozen"); });
  scheduler.Run(absl::InfiniteFuture());
  EXPECT_EQ(woken - start, absl::Seconds(5));
}

TEST(Network, OrderedStreamsKeepTheirOrderAndCutsDropWhatIsInFlight) {
  Scheduler scheduler;
  Network network(scheduler, Random(7), NetworkOptions{});
  std::vector<int> got;
  const uint64_t stream = network.NewStream();
  for (int i = 0; i < 50; ++i) network.Send("a", "b", stream, [&got, i] { got.push_back(i); });
  scheduler.Run(absl::InfiniteFuture());
  ASSERT_EQ(got.size(), 50u);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));

  network.Send("a", "b", 0, [&got] { got.push_back(99); });
  network.Cut("a", "b");
  EXPECT_FALSE(network.Send("a", "b", 0, [&got] { got.push_back(99); }));
  EXPECT_TRUE(network.Send("b", "a", 0, [&got] { got.push_back(50); }));
  scheduler.Run(absl::InfiniteFuture());
  EXPECT_EQ(got.back(), 50);
  EXPECT_EQ(got.size(), 51u);
}

}  // namespace
}  // namespace moonpool::sim
