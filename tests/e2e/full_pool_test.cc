// A pool that is full all the time.
#include <atomic>
#include <thread>

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

// Readers look at everything all the time, through calls of their own and with locations they know.
// Looking is no lease, so they cannot starve writers.
TEST_F(FullPool, PutsAreNotRefusedWhileEverythingIsBeingRead) {
  constexpr int kReaders = 2;
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::atomic<uint64_t> read = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&, r] {
      const auto client = pool_->Connect();
      std::vector<std::byte> buffer(kBlock);
      for (int i = r; !stop; ++i) {
        const std::string key = absl::StrCat("fill", i % filled_);
        (void)client->Exists(std::vector<std::string>{key});
        if (!client->Get(key, absl::MakeSpan(buffer)).ok()) continue;
        ++read;
        if (!HoldsContentOf(key, buffer)) ++wrong;
      }
    });
  }
  int refused = 0;
  std::vector<std::byte> buffer(kBlock);
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("pair", i);
    if (!client_->Put(key, ContentOf(key, kBlock), {.wait_for_space = false}).ok()) ++refused;
    if (client_->Get(key, absl::MakeSpan(buffer)).ok() && !HoldsContentOf(key, buffer)) ++wrong;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(read, 0u);
}

TEST_F(FullPool, WhenNothingMayBeEvictedPutsSayWhatHoldsTheSpace) {
  // A chain from the first block on: only its end may ever be evicted, and that is held.
  std::vector<View> views;
  for (int i = 0; i < filled_; ++i) {
    auto view = client_->GetView(absl::StrCat("fill", i));
    if (view.ok()) views.push_back(*std::move(view));
  }
  ASSERT_GT(views.size(), 0u);
  const absl::Status put =
      client_->Put("more", ContentOf("more", kBlock),
                   {.call = {.timeout = absl::Seconds(2), .cancel = {}}, .wait_for_space = false});
  EXPECT_FALSE(put.ok());
  EXPECT_FALSE(put.message().empty());
  EXPECT_TRUE(absl::IsResourceExhausted(put) || absl::IsUnavailable(put) ||
              absl::IsDeadlineExceeded(put))
      << Describe(put);
  for (int i = 0, at = 0; i < filled_ && at < static_cast<int>(views.size()); ++i) {
    const std::string key = absl::StrCat("fill", i);
    if (!HoldsContentOf(key, views[static_cast<size_t>(at)].pieces()[0])) continue;
    ++at;  // still what it was when it was pinned
  }
  views.clear();
  EXPECT_THAT(client_->Put("more", ContentOf("more", kBlock)), IsOk());
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
