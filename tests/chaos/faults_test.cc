#include "tests/chaos/faults.h"

#include <gtest/gtest.h>

#include <set>

namespace moonpool::chaos {
namespace {

constexpr int kRounds = 2000;

size_t CountOf(FaultKind kind, const Shape& shape) {
  switch (kind) {
    case FaultKind::kKillNode:
    case FaultKind::kWipeNode:
    case FaultKind::kPauseNode: return shape.nodes;
    case FaultKind::kKillMaster:
    case FaultKind::kPauseMaster: return shape.masters;
    case FaultKind::kKillClient:
    case FaultKind::kPauseClient: return shape.clients;
    case FaultKind::kKillEtcd:
    case FaultKind::kPauseEtcd: return 1;
    default: return shape.hosts;
  }
}

Shape ShapeWith(size_t masters) {
  return {.masters = masters, .nodes = 4, .clients = 2, .hosts = 4 + masters};
}

TEST(Faults, EveryKindComesAndHitsWhatIsThere) {
  const Shape shape = ShapeWith(3);
  Random random(1);
  std::set<FaultKind> kinds;
  for (int i = 0; i < kRounds; ++i) {
    for (const Fault& fault : MakeRound(shape, random)) {
      kinds.insert(fault.kind);
      EXPECT_LT(fault.target, CountOf(fault.kind, shape));
      EXPECT_LT(fault.other, shape.hosts);
      EXPECT_NE(fault.target, fault.other);
      EXPECT_GT(fault.lasts, absl::ZeroDuration());
    }
  }
  EXPECT_EQ(kinds.size(), kFaultKinds);
}

TEST(Faults, WithOneMasterThereIsNoEtcdToBreak) {
  Random random(1);
  for (int i = 0; i < kRounds; ++i) {
    for (const Fault& fault : MakeRound(ShapeWith(1), random)) {
      EXPECT_NE(fault.kind, FaultKind::kKillEtcd);
      EXPECT_NE(fault.kind, FaultKind::kPauseEtcd);
    }
  }
}

TEST(Faults, ASeedGivesTheSameRounds) {
  Random first(7), second(7);
  for (int i = 0; i < 10; ++i) {
    const auto left = MakeRound(ShapeWith(1), first), right = MakeRound(ShapeWith(1), second);
    ASSERT_EQ(left.size(), right.size());
    for (size_t j = 0; j < left.size(); ++j) {
      EXPECT_EQ(left[j].kind, right[j].kind);
      EXPECT_EQ(left[j].target, right[j].target);
      EXPECT_EQ(left[j].after, right[j].after);
      EXPECT_EQ(left[j].lasts, right[j].lasts);
    }
  }
}

}  // namespace
}  // namespace moonpool::chaos
