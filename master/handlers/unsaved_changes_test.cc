#include "master/handlers/unsaved_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "master/meta/records.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

class UnsavedChangesTest : public testing::Test {
 protected:
  static DurableChange Change(size_t number) {
    return DurableNamespace{absl::StrCat("n", number), "f"};
  }
  void Add(size_t first, size_t last) {
    std::vector<DurableChange> changes;
    for (size_t i = first; i <= last; ++i) changes.push_back(Change(i));
    unsaved_.Add(changes);
  }

  HandlersOptions options_;
  HandlerCounts counts_;
  UnsavedChanges unsaved_{options_, counts_};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(UnsavedChangesTest, AreWrittenInOrderOneBatchAfterTheOther) {
  EXPECT_EQ(unsaved_.TakeBatch(now_), std::nullopt);
  EXPECT_EQ(unsaved_.next_try(), absl::InfiniteFuture());
  Add(1, 2);
  EXPECT_LE(unsaved_.next_try(), now_);
  EXPECT_THAT(unsaved_.TakeBatch(now_),
              Optional(ElementsAre(EncodeChange(Change(1)), EncodeChange(Change(2)))));
  Add(3, 3);
  EXPECT_EQ(unsaved_.TakeBatch(now_), std::nullopt) << "one is under way";
  EXPECT_EQ(unsaved_.next_try(), absl::InfiniteFuture());
  EXPECT_EQ(unsaved_.OutcomeOf(1), std::nullopt);
  unsaved_.OnWritten(absl::OkStatus(), now_);
  EXPECT_THAT(unsaved_.OutcomeOf(2), Optional(IsOk()));
  EXPECT_EQ(unsaved_.OutcomeOf(3), std::nullopt);
  EXPECT_THAT(unsaved_.TakeBatch(now_), Optional(ElementsAre(EncodeChange(Change(3)))));
  unsaved_.OnWritten(absl::OkStatus(), now_);
  EXPECT_TRUE(unsaved_.IsSaved(3));
  EXPECT_EQ(unsaved_.size(), 0u);
  EXPECT_EQ(counts_.meta_writes, 2u);
}

TEST_F(UnsavedChangesTest, ABatchIsBounded) {
  Add(1, UnsavedChanges::kBatchMax + 1);
  EXPECT_EQ(unsaved_.TakeBatch(now_)->size(), UnsavedChanges::kBatchMax);
  unsaved_.OnWritten(absl::OkStatus(), now_);
  EXPECT_TRUE(unsaved_.IsSaved(UnsavedChanges::kBatchMax));
  EXPECT_FALSE(unsaved_.IsSaved(UnsavedChanges::kBatchMax + 1));
  EXPECT_EQ(unsaved_.TakeBatch(now_)->size(), 1u);
}

TEST_F(UnsavedChangesTest, AFailureIsThatOfAllThatWaitedAndIsTriedAgain) {
  Add(1, 1);
  const std::optional<MetaBatch> first = unsaved_.TakeBatch(now_);
  Add(2, 2);
  unsaved_.OnWritten(absl::ResourceExhaustedError("no space"), now_);
  for (const ChangeNumber number : {1u, 2u}) {
    EXPECT_THAT(unsaved_.OutcomeOf(number),
                Optional(Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kNotSaved)));
  }
  Add(3, 3);
  EXPECT_EQ(unsaved_.OutcomeOf(3), std::nullopt) << "it may do better";
  EXPECT_EQ(unsaved_.TakeBatch(now_), std::nullopt);
  EXPECT_EQ(unsaved_.next_try(), now_ + options_.meta_retry);
  now_ += options_.meta_retry;
  const std::optional<MetaBatch> second = unsaved_.TakeBatch(now_);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->size(), 3u);
  EXPECT_EQ(second->front(), first->front());
  unsaved_.OnWritten(absl::InternalError("unknown"), now_);
  EXPECT_THAT(unsaved_.OutcomeOf(3),
              Optional(Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotSaved)));
  now_ += options_.meta_retry;
  ASSERT_TRUE(unsaved_.TakeBatch(now_).has_value());
  unsaved_.OnWritten(absl::OkStatus(), now_);
  EXPECT_THAT(unsaved_.OutcomeOf(3), Optional(IsOk()));
  EXPECT_EQ(counts_.meta_failures, 2u);
}

TEST_F(UnsavedChangesTest, NothingIsWrittenAfterAnotherMasterTookOver) {
  Add(1, 1);
  ASSERT_TRUE(unsaved_.TakeBatch(now_).has_value());
  unsaved_.OnWritten(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "x"),
                     now_);
  EXPECT_TRUE(unsaved_.is_deposed());
  now_ += absl::Hours(1);
  Add(2, 2);
  EXPECT_EQ(unsaved_.TakeBatch(now_), std::nullopt);
  EXPECT_EQ(unsaved_.next_try(), absl::InfiniteFuture());
  EXPECT_THAT(unsaved_.OutcomeOf(2),
              Optional(Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm)));
}

TEST_F(UnsavedChangesTest, AreFullAtTheBound) {
  options_.max_unsaved_changes = 2;
  Add(1, 1);
  EXPECT_FALSE(unsaved_.full());
  Add(2, 2);
  EXPECT_TRUE(unsaved_.full());
}

}  // namespace
}  // namespace moonpool::master
