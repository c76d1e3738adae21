#include "transport/sim/fiber.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace moonpool::sim {
namespace {

TEST(Fiber, RunsInSlicesBetweenItsCaller) {
  std::string order;
  Fiber* self = nullptr;
  Fiber fiber([&] {
    order += "1";
    self->Suspend();
    order += "2";
  });
  self = &fiber;
  order += "a";
  fiber.Resume();
  EXPECT_FALSE(fiber.has_ended());
  order += "b";
  fiber.Resume();
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_EQ(order, "a1b2");
}

// Of some hundred bytes a level: what is on each stack when another runs is still there afterwards.
size_t Sum(Fiber& fiber, size_t depth) {
  std::vector<size_t> local(1, depth);
  fiber.Suspend();
  return local[0] + (depth == 0 ? 0 : Sum(fiber, depth - 1));
}

TEST(Fiber, ManyKeepTheirStacksApart) {
  constexpr size_t kFibers = 20, kDepth = 200;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<size_t> sums(kFibers);
  for (size_t i = 0; i < kFibers; ++i) {
    fibers.push_back(std::make_unique<Fiber>([&, i] { sums[i] = Sum(*fibers[i], kDepth + i); }));
  }
  for (size_t i = 0; i < kFibers; ++i) {
    for (size_t other = 0; other < kFibers; ++other) {
      if (!fibers[other]->has_ended()) fibers[other]->Resume();
    }
  }
  for (const auto& fiber : fibers) {
    while (!fiber->has_ended()) fiber->Resume();
  }
  for (size_t i = 0; i < kFibers; ++i) {
    EXPECT_EQ(sums[i], (kDepth + i) * (kDepth + i + 1) / 2) << i;
  }
}

TEST(Fiber, OneCanRunAnother) {
  std::string order;
  Fiber* outer_self = nullptr;
  Fiber outer([&] {
    Fiber inner([&] { order += "inner "; });
    order += "outer ";
    inner.Resume();
    outer_self->Suspend();
    order += "outer again";
  });
  outer_self = &outer;
  outer.Resume();
  outer.Resume();
  EXPECT_EQ(order, "outer inner outer again");
}

TEST(Fiber, OneThatNeverBeganMayGo) {
  bool has_run = false;
  {
    Fiber fiber([&] { has_run = true; });
  }
  EXPECT_FALSE(has_run);
}

TEST(FiberDeathTest, OneInTheMiddleOfItsWorkMayNot) {
  EXPECT_DEATH(
      {
        Fiber* self = nullptr;
        Fiber fiber([&] { self->Suspend(); });
        self = &fiber;
        fiber.Resume();
      },
      "in the middle of its work");
}

}  // namespace
}  // namespace moonpool::sim
