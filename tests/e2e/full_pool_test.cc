// A pool that is full all the time.
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

constexpr size_t kBlock = 256 << 10;
constexpr uint64_t kDram = uint64_t{32} << 20;

class FullPool : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = Pool::Start({.nodes = 2, .dram_bytes = kDram});
    ASSERT_NE(pool_, nullptr);
    client_ = pool_->Connect();
    for (size_t stored = 0; stored < 2 * kDram + 4 * kBlock; stored += kBlock) {
      const std::string key = absl::StrCat("fill", filled_++);
      ASSERT_THAT(client_->Put(key, ContentOf(key, kBlock)), IsOk());
    }
  }
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Client> client_;
  int filled_ = 0;
};

TEST_F(FullPool, EveryPutFindsRoomAndIsReadable) {
  std::vector<std::byte> buffer(kBlock);
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("pair", i);
    const absl::Status put = client_->Put(key, ContentOf(key, kBlock), {.wait_for_space = false});
    ASSERT_TRUE(put.ok()) << i << ": " << Describe(put);
    ASSERT_THAT(client_->Get(key, absl::MakeSpan(buffer)), IsOk());
    ASSERT_TRUE(HoldsContentOf(key, buffer)) << key;
  }
  const nlohmann::json totals = pool_->Status()["totals"];
  EXPECT_EQ(totals["puts_refused"], 0);
  EXPECT_GT(totals["evicted"].get<int>(), 250);
}

TEST_F(FullPool, WhatWasEvictedSaysSo) {
  int evicted = 0;
  for (int i = 0; i < filled_; ++i) {
    const auto got = client_->Get(absl::StrCat("fill", i));
    if (got.ok()) continue;
    ++evicted;
    EXPECT_EQ(ReasonOf(got.status()), ErrorReason::kEvicted) << Describe(got.status());
    const nlohmann::json why = pool_->Cli({"why", absl::StrCat("fill", i), "--json"}).Json();
    EXPECT_EQ(why["state"], "evicted");
    EXPECT_EQ(why["policy"], "cohort");
  }
  EXPECT_GT(evicted, 0);
}

TEST_F(FullPool, AValueLargerThanThePoolIsRefusedAtOnce) {
  const std::vector<std::byte> huge(2 * kDram + 1);
  const absl::Status put = client_->Put("huge", huge);
  EXPECT_EQ(ReasonOf(put), ErrorReason::kValueTooLarge) << Describe(put);
  EXPECT_EQ(put.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FullPool, AViewKeepsItsBytesWhileOthersAreEvicted) {
  ASSERT_THAT(client_->Put("viewed", ContentOf("viewed", kBlock)), IsOk());
  auto view = client_->GetView("viewed");
  ASSERT_TRUE(view.ok()) << Describe(view.status());
  for (int i = 0; i < 600; ++i) {
    const std::string key = absl::StrCat("churn", i);
    ASSERT_THAT(client_->Put(key, ContentOf(key, kBlock)), IsOk());
  }
  ASSERT_EQ(view->pieces().size(), 1u);
  EXPECT_TRUE(HoldsContentOf("viewed", view->pieces()[0]));
}

}  // namespace
}  // namespace moonpool::e2e
