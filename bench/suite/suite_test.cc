#include "bench/suite/ratios.h"
#include "bench/suite/rounds.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonpool::bench {
namespace {

Case Counting(const std::string& name, double step, std::vector<std::string>* order) {
  return {.name = name, .measure = [=, n = 0](absl::Duration) mutable -> absl::StatusOr<Reading> {
            order->push_back(name);
            return Reading{.rate = step * ++n, .p50_us = 7};
          }};
}

TEST(Rounds, CasesAreInterleaved) {
  std::vector<std::string> order;
  const std::vector<Case> cases = {Counting("a", 1, &order), Counting("b", 2, &order)};
  ASSERT_OK_AND_ASSIGN(const std::vector<CaseResult> results, RunRounds(cases, {.rounds = 3}));
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "a", "b", "a", "b"}));
  EXPECT_EQ(results[0].rate.Median(), 2);
  EXPECT_EQ(results[1].rate.Max(), 6);
}

TEST(Rounds, AnErrorNamesItsCase) {
  const std::vector<Case> cases = {
      {.name = "broken", .measure = [](absl::Duration) -> absl::StatusOr<Reading> {
         return absl::UnavailableError("gone");
       }}};
  EXPECT_EQ(RunRounds(cases, {}).status(), absl::UnavailableError("broken: gone"));
}

TEST(Ratios, SelectedCasesComeWithWhatTheyAreComparedWith) {
  std::vector<Case> cases(3);
  cases[0].name = "ours_1m";
  cases[1].name = "limit";
  cases[2].name = "other";
  const std::vector<Figure> figures = {{.name = "ratio", .of = "ours_1m", .over = "limit"}};
  const auto names = [&](const std::vector<std::string>& texts) {
    std::vector<std::string> found;
    for (const Case& one : Select(cases, figures, texts)) found.push_back(one.name);
    return found;
  };
  EXPECT_THAT(names({}), testing::ElementsAre("ours_1m", "limit", "other"));
  EXPECT_THAT(names({"ours"}), testing::ElementsAre("ours_1m"));
  EXPECT_THAT(names({"rati", "oth"}), testing::ElementsAre("ours_1m", "limit", "other"));
  EXPECT_THAT(names({"rati"}), testing::ElementsAre("ours_1m", "limit"));
  EXPECT_THAT(names({"nothing"}), testing::IsEmpty());
}

TEST(Ratios, AreTakenRoundByRound) {
  std::vector<std::string> order;
  const std::vector<Case> cases = {Counting("ours", 3, &order), Counting("limit", 4, &order)};
  ASSERT_OK_AND_ASSIGN(const std::vector<CaseResult> results, RunRounds(cases, {.rounds = 5}));
  const std::vector<FigureResult> figures = Evaluate(
      {{.name = "ratio", .of = "ours", .over = "limit", .bound = Bound::kAtLeast, .limit = 0.8},
       {.name = "loss",
        .of = "ours",
        .over = "limit",
        .bound = Bound::kAtMost,
        .limit = 0.3,
        .is_loss = true},
       {.name = "plain", .of = "ours", .field = Field::kP50Micros},
       {.name = "unmeasured", .of = "nothing"}},
      results);
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0].samples.Min(), 0.75);
  EXPECT_EQ(figures[0].samples.Max(), 0.75);
  EXPECT_EQ(figures[0].KeepsBound(), false);
  EXPECT_EQ(figures[1].samples.Median(), 0.25);
  EXPECT_EQ(figures[1].KeepsBound(), true);
  EXPECT_EQ(figures[2].samples.Median(), 7);
  EXPECT_EQ(figures[2].KeepsBound(), std::nullopt);
  const nlohmann::ordered_json json = ToJson(figures);
  EXPECT_EQ(json["ratios"]["ratio"], 0.75);
  EXPECT_EQ(json["ratio_bounds"]["loss"], "<= 0.3");
}

}  // namespace
}  // namespace moonpool::bench
