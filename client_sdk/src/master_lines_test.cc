#include "client_sdk/src/master_lines.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace moonpool::client {
namespace {

// Nobody listens there, and nothing is sent.
constexpr char kAddress[] = "127.0.0.1:1";

TEST(MasterLines, CallsOneAfterTheOtherHaveOneConnection) {
  MasterLines lines(kAddress);
  EXPECT_EQ(lines.size(), 0u);
  const v1::MasterService::Stub* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const MasterLines::Lease line = lines.Take();
    if (i == 0) first = &line.stub();
    EXPECT_EQ(&line.stub(), first);
  }
  EXPECT_EQ(lines.size(), 1u);
}

TEST(MasterLines, CallsAtTheSameTimeHaveOneEachAsFarAsThereAreAny) {
  MasterLines lines(kAddress);
  std::vector<MasterLines::Lease> held;
  for (size_t i = 0; i < MasterLines::kLinesMax; ++i) {
    held.push_back(lines.Take());
    EXPECT_EQ(lines.size(), i + 1);
  }
  // Two more share the first two, the least busy.
  held.push_back(lines.Take());
  EXPECT_EQ(&held.back().stub(), &held[0].stub());
  held.push_back(lines.Take());
  EXPECT_EQ(&held.back().stub(), &held[1].stub());
  EXPECT_EQ(lines.size(), MasterLines::kLinesMax);

  const v1::MasterService::Stub* const freed = &held[2].stub();
  std::vector<MasterLines::Lease> kept;
  for (size_t i = 0; i < held.size(); ++i) {
    if (i != 2) kept.push_back(std::move(held[i]));
  }
  held.clear();
  EXPECT_EQ(&lines.Take().stub(), freed);
}

}  // namespace
}  // namespace moonpool::client
