#include "storage_node/copy/copy_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "common/error.h"
#include "common/testing/status_matchers.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kJobsMax = 3;
const absl::Time kDeadline = absl::UnixEpoch() + absl::Seconds(9);

Generation Gen(uint32_t term, uint32_t counter) { return Generation::Of(Term{term}, counter); }

class CopyQueueTest : public ::testing::Test {
 protected:
  CopyQueueTest() {
    queue_.SetOnQueued([this] { ++queued_; });
    queue_.SetOnResult([this] { ++results_; });
  }

  static CopyOrder Order(Generation claim) {
    CopyOrder order;
    order.record.generation = Gen(1, 1);
    order.record.key = "k";
    order.claim = claim;
    order.source.name = "a";
    return order;
  }
  absl::Status Add(uint64_t command, Generation claim) {
    return queue_.Add(command, Order(claim), kDeadline);
  }

  CopyQueue queue_{kJobsMax};
  int queued_ = 0;
  int results_ = 0;
};

TEST_F(CopyQueueTest, WhatWasOrderedFirstIsDoneFirstAndAnswered) {
  ASSERT_THAT(Add(10, Gen(1, 2)), IsOk());
  ASSERT_THAT(Add(11, Gen(1, 3)), IsOk());
  EXPECT_EQ(queued_, 2);
  const std::optional<CopyJob> job = queue_.Take();
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->order, Order(Gen(1, 2)));
  EXPECT_EQ(job->context.deadline, kDeadline);
  EXPECT_TRUE(queue_.has_waiting());
  EXPECT_FALSE(queue_.has_results());
  queue_.Finish(job->id, absl::OkStatus());
  EXPECT_EQ(results_, 1);
  const std::vector<CopyResult> results = queue_.TakeResults();
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].command_id, 10u);
  EXPECT_THAT(results[0].status, IsOk());
  EXPECT_EQ(queue_.Take()->order, Order(Gen(1, 3)));
  EXPECT_FALSE(queue_.Take().has_value());
}

TEST_F(CopyQueueTest, OrdersAndResultsAreBounded) {
  for (uint32_t i = 1; i <= kJobsMax; ++i) ASSERT_THAT(Add(i, Gen(1, 1 + i)), IsOk());
  const auto is_full = Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached);
  EXPECT_THAT(Add(9, Gen(1, 9)), is_full);
  queue_.Finish(queue_.Take()->id, absl::OkStatus());
  EXPECT_THAT(Add(9, Gen(1, 9)), is_full) << "the result waits";
  EXPECT_THAT(queue_.TakeResults(), SizeIs(1));
  EXPECT_THAT(Add(9, Gen(1, 9)), IsOk());
}

TEST_F(CopyQueueTest, ARepeatedOrderIsOneJobAndAnswersTheNewestCommand) {
  ASSERT_THAT(Add(1, Gen(1, 2)), IsOk());
  ASSERT_THAT(Add(2, Gen(1, 2)), IsOk());
  const std::optional<CopyJob> job = queue_.Take();
  EXPECT_FALSE(queue_.has_waiting());
  ASSERT_THAT(Add(3, Gen(1, 2)), IsOk()) << "a worker has it already";
  EXPECT_FALSE(queue_.has_waiting());
  queue_.Finish(job->id, absl::OkStatus());
  const std::vector<CopyResult> results = queue_.TakeResults();
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].command_id, 3u);
}

TEST_F(CopyQueueTest, CancelEndsWhatWaitsAtOnceAndTellsWhoWorks) {
  for (uint32_t i = 1; i <= 3; ++i) ASSERT_THAT(Add(i, Gen(1, 1 + i)), IsOk());
  const std::optional<CopyJob> running = queue_.Take();
  const Generation others[] = {Gen(1, 1), Gen(7, 7)};
  queue_.Cancel(others);
  EXPECT_FALSE(queue_.has_results());
  const Generation claims[] = {Gen(1, 2), Gen(1, 3)};
  queue_.Cancel(claims);
  EXPECT_TRUE(running->context.cancel.cancelled());
  EXPECT_EQ(results_, 1);
  const std::vector<CopyResult> results = queue_.TakeResults();
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].command_id, 2u);
  EXPECT_THAT(results[0].status, Fails(StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_EQ(queue_.Take()->order, Order(Gen(1, 4)));
}

TEST_F(CopyQueueTest, AHigherTermEndsWhatWasClaimedBeforeIt) {
  ASSERT_THAT(Add(1, Gen(1, 2)), IsOk());
  ASSERT_THAT(Add(2, Gen(2, 1)), IsOk());
  queue_.CancelBefore(Term{2});
  const std::vector<CopyResult> results = queue_.TakeResults();
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].command_id, 1u);
  EXPECT_EQ(queue_.Take()->order, Order(Gen(2, 1)));
}

TEST_F(CopyQueueTest, TheEndOfTheSessionEndsAllAndNobodyHearsOfIt) {
  for (uint32_t i = 1; i <= 3; ++i) ASSERT_THAT(Add(i, Gen(1, 1 + i)), IsOk());
  queue_.Finish(queue_.Take()->id, absl::OkStatus());
  const std::optional<CopyJob> running = queue_.Take();
  queue_.EndSession();
  EXPECT_TRUE(running->context.cancel.cancelled());
  EXPECT_FALSE(queue_.has_waiting());
  // The next session may order the same, and what the last one left is no answer to it.
  ASSERT_THAT(Add(1, Gen(1, 3)), IsOk());
  queue_.Finish(running->id, absl::CancelledError(""));
  EXPECT_THAT(queue_.TakeResults(), IsEmpty());
  EXPECT_EQ(queue_.Take()->order, Order(Gen(1, 3)));
}

}  // namespace
}  // namespace moonpool::storage_node
