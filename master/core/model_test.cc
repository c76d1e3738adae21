// Random histories, see testing/model.h.
#include "master/core/testing/model.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace moonpool::master {
namespace {

constexpr int kSteps = 1500;

void RunModel(const ModelOptions& options) {
  SCOPED_TRACE(absl::StrCat("seed ", options.seed, " ", options.eviction_policy,
                            options.has_damage ? " with damage" : ""));
  Model model(options);
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    model.Step();
    if (testing::Test::HasFatalFailure()) return;
  }
  model.Rest();
  EXPECT_TRUE(model.has_granted());
}

class ModelSeeds : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(ModelSeeds, NoHistoryBreaksAPromise) {
  const auto [seed, has_damage] = GetParam();
  const std::string policies[] = {"cohort", "lru", "s3fifo"};
  RunModel({.seed = static_cast<uint64_t>(seed),
            .has_damage = has_damage,
            .eviction_policy = policies[seed % 3]});
}

INSTANTIATE_TEST_SUITE_P(All, ModelSeeds, testing::Combine(testing::Range(1, 81), testing::Bool()));

// Others, which have once found a fault.
TEST(ModelTest, NoHistoryBreaksAPromiseAgain) {
  RunModel({.seed = 196, .has_damage = true, .eviction_policy = "cohort"});
  RunModel({.seed = 198, .has_damage = true, .eviction_policy = "lru"});
  RunModel({.seed = 271, .eviction_policy = "lru"});
  RunModel({.seed = 361, .has_damage = true, .eviction_policy = "s3fifo"});
}

// For hands: --gtest_also_run_disabled_tests --gtest_filter=*Many*
TEST(ModelTest, DISABLED_ManyHistories) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const char* policy : {"cohort", "lru", "s3fifo"}) {
      for (const bool has_damage : {false, true}) {
        RunModel({.seed = seed, .has_damage = has_damage, .eviction_policy = policy});
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace moonpool::master
