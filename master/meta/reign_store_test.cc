#include "master/meta/reign_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "master/meta/records.h"
#include "master/meta/testing/memory_meta_store.h"

namespace moonpool::master {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class ReignStoreTest : public testing::Test {
 protected:
  ReignStoreTest()
      : store_(std::make_unique<MemoryMetaStore>(disk_),
               [this](Term at_least, MetaStore::WriteDone done) {
                 raises_.emplace_back(at_least, std::move(done));
               }) {}
  // Where the outcome lands.
  MetaStore::WriteDone Keep(std::optional<absl::Status>& outcome) {
    return [&outcome](absl::Status status) { outcome = std::move(status); };
  }
  MetaChange namespace_ = EncodeChange(DurableNamespace{"models", "f1"});
  MemoryDisk disk_;
  std::vector<std::pair<Term, MetaStore::WriteDone>> raises_;
  ReignStore store_;
};

TEST_F(ReignStoreTest, WhatNamesNoTermGoesStraightToTheStore) {
  std::optional<absl::Status> outcome;
  store_.Write({namespace_}, Keep(outcome));
  EXPECT_THAT(outcome, testing::Optional(IsOk()));
  EXPECT_THAT(raises_, IsEmpty());
  EXPECT_THAT(*store_.Load(absl::InfiniteFuture()), SizeIs(1));
}

TEST_F(ReignStoreTest, ATermIsCountedByTheElectionBeforeItIsWritten) {
  std::optional<absl::Status> outcome;
  store_.Write({namespace_, EncodeChange(Term{8}), EncodeChange(Term{9})}, Keep(outcome));
  ASSERT_THAT(raises_, SizeIs(1));
  EXPECT_EQ(raises_[0].first, Term{9});
  EXPECT_FALSE(outcome.has_value());
  EXPECT_THAT(disk_, IsEmpty()) << "all of the batch, or nothing";
  std::move(raises_[0].second)(absl::OkStatus());
  EXPECT_THAT(outcome, testing::Optional(IsOk()));
  EXPECT_THAT(disk_, SizeIs(2));
  EXPECT_EQ(DecodeRecords(*store_.Load(absl::InfiniteFuture())).state.term, Term{9});
}

TEST_F(ReignStoreTest, ATermThatIsNotCountedIsNotWritten) {
  std::optional<absl::Status> outcome;
  store_.Write({EncodeChange(Term{9})}, Keep(outcome));
  ASSERT_THAT(raises_, SizeIs(1));
  std::move(raises_[0].second)(
      MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "over"));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(*outcome, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_THAT(disk_, IsEmpty());
}

}  // namespace
}  // namespace moonpool::master
