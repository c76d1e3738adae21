// Many random histories: whatever fails, in whatever order, no two masters may answer as the leader
// at one moment of real time, a term has one leader and later ones have greater terms; and when all
// is well again, there is a leader soon and all know it.
#include <gtest/gtest.h>

#include <algorithm>

#include "master/election/testing/election_world.h"

namespace moonpool::master {
namespace {

constexpr uint64_t kSeeds = 1000;
constexpr int kSteps = 150;

void Disturb(ElectionWorld& world) {
  Random& random = world.random();
  const size_t machine = random.Below(world.size());
  switch (random.Below(12)) {
    case 0: world.Pause(machine); break;
    case 1:
    case 2: world.Continue(machine); break;
    case 3: world.SetCut(machine, random.OneIn(2), random.OneIn(2)); break;
    case 4:
    case 5: world.SetCut(machine, false, false); break;
    case 6: world.Restart(machine); break;
    case 7: world.Resign(machine); break;
    case 8:
      if (world.election(machine).state() == ElectionState::kResigned) world.Restart(machine);
      break;
    case 9: world.StopEtcd(); break;
    case 10: world.StartEtcd(); break;
    default: {
      const Term seen = world.election(machine).term();
      world.RaiseTerm(machine, Term{seen.value + static_cast<uint32_t>(random.Below(5))});
    }
  }
}

// Where the leader is, faults find more.
void DisturbLeader(ElectionWorld& world) {
  const int leader = world.Leader();
  if (leader < 0) return;
  const auto machine = static_cast<size_t>(leader);
  switch (world.random().Below(4)) {
    case 0: world.Pause(machine); break;
    case 1: world.SetCut(machine, true, false); break;
    case 2: world.SetCut(machine, false, true); break;
    default: world.Restart(machine);
  }
}

void RunHistory(uint64_t seed, int& reigns) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  ElectionWorld world(seed, 2 + seed % 3);
  Random& random = world.random();
  if (seed % 4 != 0) {
    world.faults = {.loss = 0.1 * random.Uniform(),
                    .duplicate = 0.2 * random.Uniform(),
                    .straggler = 0.1 * random.Uniform()};
  }
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(world.Run(absl::Milliseconds(1500) * random.Uniform())) << world.failure();
    if (random.OneIn(3)) {
      DisturbLeader(world);
    } else {
      Disturb(world);
    }
  }
  world.Heal();
  // Stragglers of the bad times, the lease of whoever led, the sweep of etcd, back-offs.
  ASSERT_TRUE(world.Run(absl::Seconds(15))) << world.failure();
  const int leader = world.Leader();
  ASSERT_GE(leader, 0) << "nobody leads";
  for (size_t i = 0; i < world.size(); ++i) {
    const auto& events = world.events(i);
    reigns += static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
      return event.kind == ElectionEvent::Kind::kLeader;
    }));
    if (static_cast<int>(i) == leader) continue;
    EXPECT_EQ(world.election(i).state(), ElectionState::kFollowing);
    EXPECT_EQ(world.election(i).leader(), world.Address(static_cast<size_t>(leader)));
  }
}

TEST(ElectionModel, NeverTwoLeadersWhateverFails) {
  int reigns = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !HasFatalFailure(); ++seed) RunHistory(seed, reigns);
  // The histories are of use only if leaders come and go in them.
  EXPECT_GT(reigns, static_cast<int>(kSeeds) * 5);
}

TEST(ElectionModel, OneSeedIsOneHistory) {
  const auto history = [] {
    ElectionWorld world(7, 3);
    world.faults = {.loss = 0.05, .duplicate = 0.1, .straggler = 0.05};
    for (int step = 0; step < 50; ++step) {
      world.Run(absl::Milliseconds(500));
      Disturb(world);
    }
    return world.log();
  };
  EXPECT_EQ(history(), history());
}

}  // namespace
}  // namespace moonpool::master
