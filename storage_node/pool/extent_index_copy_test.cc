// Copies of parts: in the order of owners they are as new as what they were claimed under, and for
// everybody else the part of the generation that they hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using transport::SealRecord;

const Extent kHere = At(0, 192);
const Generation kPart = Gen(1, 5);    // what is copied
const Generation kDead = Gen(1, 7);    // a writer who had these bytes since, and may still come
const Generation kClaim = Gen(1, 9);   // what the copy is claimed under
const Generation kNewer = Gen(1, 11);  // who gets the bytes next

auto IsStale() { return Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration); }
auto IsPartOf(Generation generation) { return Field(&SealRecord::generation, generation); }

class ExtentIndexCopyTest : public ::testing::Test {
 protected:
  uint64_t Free(Generation generation) {
    const Generation generations[] = {generation};
    return pool_.index().Free(generations, {.oldest_open = Gen(1, 1), .newest = Gen(1, 20)});
  }

  TestPool pool_;
};

TEST_F(ExtentIndexCopyTest, ACopyIsReadListedAndReportedAsThePartThatItHolds) {
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, kHere, "k"), IsOk());
  EXPECT_TRUE(pool_.IsReadable(kPart, kHere));
  EXPECT_FALSE(pool_.IsReadable(kClaim, kHere));
  EXPECT_THAT(pool_.Inventory(), ElementsAre(IsPartOf(kPart)));
  EXPECT_THAT(pool_.index().TakeSealReports(10), ElementsAre(IsPartOf(kPart)));
  EXPECT_TRUE(pool_.index().FindRecord(kPart, kHere).has_value());
  EXPECT_FALSE(pool_.index().FindRecord(kClaim, kHere).has_value());
}

TEST_F(ExtentIndexCopyTest, ALateWriterOfADeadGenerationDoesNotGetTheBytesOfACopy) {
  ASSERT_THAT(pool_.Put(kDead, kHere, "dead"), IsOk());
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, kHere, "k"), IsOk());
  EXPECT_THAT(pool_.Claim(kDead, kHere).status(), IsStale());
  EXPECT_THAT(pool_.Claim(kDead, At(64, 128)).status(), IsStale());
  EXPECT_THAT(pool_.index().Seal(RecordFor(kDead, kHere, "dead")), IsStale());
  // Nor one of the part itself: the bytes are not its grant's.
  EXPECT_THAT(pool_.Claim(kPart, kHere).status(), IsStale());
  EXPECT_THAT(pool_.index().Seal(RecordFor(kPart, kHere, "k")), IsStale());
  EXPECT_TRUE(pool_.IsReadable(kPart, kHere));
}

TEST_F(ExtentIndexCopyTest, ANewerGrantSupersedesACopyAndAnOlderClaimDoesNotSupersedeIt) {
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, kHere, "k"), IsOk());
  EXPECT_THAT(pool_.PutCopy(Gen(1, 8), Gen(1, 2), kHere, "older"), IsStale());
  ASSERT_THAT(pool_.Put(kNewer, At(64, 64), "newer"), IsOk());
  EXPECT_FALSE(pool_.IsReadable(kPart, kHere));
  EXPECT_THAT(pool_.Inventory(), ElementsAre(IsPartOf(kNewer)));
}

TEST_F(ExtentIndexCopyTest, FreeOfTheClaimOrOfThePartForgetsTheCopy) {
  for (const Generation freed : {kClaim, kPart}) {
    const Generation claim = freed == kClaim ? kClaim : Gen(1, 10);
    ASSERT_THAT(pool_.PutCopy(claim, kPart, kHere, "k"), IsOk());
    EXPECT_EQ(Free(freed), 1u);
    EXPECT_THAT(pool_.Inventory(), IsEmpty());
    EXPECT_EQ(transport::LoadPartGeneration(pool_.base()), Generation{});
  }
}

TEST_F(ExtentIndexCopyTest, FreeOfTheClaimBeforeTheSealRefusesIt) {
  ASSERT_OK_AND_ASSIGN(const auto claim, pool_.Claim(kClaim, kHere));
  claim->SetWritten();
  EXPECT_EQ(Free(kClaim), 1u);
  EXPECT_FALSE(claim->BeginStep());
  EXPECT_THAT(pool_.index().SealCopy(RecordFor(kPart, kHere, "k"), kClaim), IsStale());
  EXPECT_THAT(pool_.Claim(kClaim, kHere).status(), IsStale());
}

// Drained and wanted again: the generation is not written anew, it is brought.
TEST_F(ExtentIndexCopyTest, APartThatWasFreedHereMayComeBackAsACopy) {
  ASSERT_THAT(pool_.Put(kPart, At(256, 128), "k"), IsOk());
  Free(kPart);
  EXPECT_THAT(pool_.Claim(kPart, At(256, 128)).status(), IsStale());
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, At(512, 128), "k"), IsOk());
  EXPECT_TRUE(pool_.IsReadable(kPart, At(512, 128)));
  // And once more, under another claim.
  EXPECT_EQ(Free(kPart), 1u);
  ASSERT_THAT(pool_.PutCopy(kNewer, kPart, At(512, 128), "k"), IsOk());
  EXPECT_TRUE(pool_.IsReadable(kPart, At(512, 128)));
}

TEST_F(ExtentIndexCopyTest, FreeWhileACopyIsUnderWayForgetsWhatIsThereAndNotWhatComes) {
  ASSERT_OK_AND_ASSIGN(const auto claim, pool_.Claim(kClaim, kHere));
  claim->SetWritten();
  EXPECT_EQ(Free(kPart), 0u);
  EXPECT_THAT(pool_.index().SealCopy(RecordFor(kPart, kHere, "k"), kClaim), IsOk());
}

TEST_F(ExtentIndexCopyTest, SeveralPartsOfOneGenerationMayBeHereWrittenAndCopied) {
  ASSERT_THAT(pool_.Put(kPart, kHere, "k"), IsOk());
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, At(512, 192), "k"), IsOk());
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, At(1024, 192), "k"), IsOk());
  EXPECT_THAT(pool_.Inventory(), ElementsAre(IsPartOf(kPart), IsPartOf(kPart), IsPartOf(kPart)));
  EXPECT_EQ(Free(kClaim), 2u);
  EXPECT_TRUE(pool_.IsReadable(kPart, kHere));
  ASSERT_THAT(pool_.PutCopy(kNewer, kPart, At(512, 192), "k"), IsOk());
  EXPECT_EQ(Free(kPart), 2u);
  EXPECT_THAT(pool_.Inventory(), IsEmpty());
}

TEST_F(ExtentIndexCopyTest, ASealOfACopyMayBeRepeatedAndNotChanged) {
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, kHere, "k"), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto record, [&]() -> absl::StatusOr<SealRecord> {
    return pool_.index().FindRecord(kPart, kHere).value();
  }());
  EXPECT_THAT(pool_.Claim(kClaim, kHere).status(),
              Fails(StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  EXPECT_THAT(pool_.index().SealCopy(record, kClaim), IsOk());
  SealRecord other = record;
  other.key = "other";
  EXPECT_THAT(pool_.index().SealCopy(other, kClaim),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
  EXPECT_TRUE(pool_.IsReadable(kPart, kHere));
}

TEST_F(ExtentIndexCopyTest, ACopyOfWhatIsNotOlderThanItsClaimIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto claim, pool_.Claim(kClaim, kHere));
  claim->SetWritten();
  for (const Generation generation : {kClaim, kNewer}) {
    EXPECT_THAT(pool_.index().SealCopy(RecordFor(generation, kHere, "k"), kClaim),
                Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  }
}

TEST_F(ExtentIndexCopyTest, AHigherTermRefusesWhatWasClaimedBeforeIt) {
  ASSERT_OK_AND_ASSIGN(const auto claim, pool_.Claim(kClaim, kHere));
  claim->SetWritten();
  pool_.index().NoteTerm(Term{2});
  EXPECT_THAT(pool_.index().SealCopy(RecordFor(kPart, kHere, "k"), kClaim),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  // A part of the older term is copied under a claim of the newer one.
  EXPECT_THAT(pool_.PutCopy(Gen(2, 1), kPart, kHere, "k"), IsOk());
}

TEST_F(ExtentIndexCopyTest, AViewPinsACopyAsItDoesAnyPart) {
  FakeViewer viewer;
  pool_.index().AttachViewer(&viewer);
  ASSERT_THAT(pool_.PutCopy(kClaim, kPart, kHere, "k"), IsOk());
  viewer.Hold(kPart);
  EXPECT_THAT(pool_.Claim(kNewer, kHere).status(),
              Fails(StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  EXPECT_TRUE(pool_.IsReadable(kPart, kHere));
  EXPECT_EQ(Free(kClaim), 1u);
  EXPECT_THAT(pool_.Claim(kNewer, kHere).status(),
              Fails(StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  viewer.Release();
  EXPECT_THAT(pool_.Claim(kNewer, kHere).status(), IsOk());
  pool_.index().DetachViewer(&viewer);
}

}  // namespace
}  // namespace moonpool::storage_node
