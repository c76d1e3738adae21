// Views and mapped writers: bytes in use get no other owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::IsEmpty;
using transport::WriterKind;

MATCHER(IsPinned, "is BYTES_PINNED") {
  return AsStatus(arg).code() == StatusCode::kUnavailable &&
         ReasonOf(AsStatus(arg)) == ErrorReason::kBytesPinned;
}

class PinsTest : public ::testing::Test {
 protected:
  PinsTest() { pool_.index().AttachViewer(&viewer_); }
  ~PinsTest() override { pool_.index().DetachViewer(&viewer_); }

  void Free(Generation generation) {
    const Generation generations[] = {generation};
    pool_.index().Free(generations);
  }
  absl::StatusOr<std::shared_ptr<transport::WriteClaim>> ClaimMapped(Generation generation,
                                                                     const Extent& extent) {
    return pool_.index().Claim(generation, extent, WriterKind::kMapped);
  }
  Generation HeaderAt(uint64_t offset) {
    return transport::LoadPartGeneration(pool_.base() + offset);
  }

  TestPool pool_;
  FakeViewer viewer_;
};

TEST_F(PinsTest, AViewedPartIsNotSuperseded) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "other"), IsOk());
  ASSERT_THAT(pool_.Put(Gen(1, 2), At(128, 128), "viewed"), IsOk());
  ASSERT_OK_AND_ASSIGN(auto writing, pool_.Claim(Gen(1, 3), At(256, 128)));
  viewer_.Hold(Gen(1, 2));
  EXPECT_THAT(pool_.Claim(Gen(1, 4), At(64, 512)), IsPinned());
  // All as before, neighbours included.
  EXPECT_TRUE(pool_.IsReadable(Gen(1, 1), At(0, 128)));
  EXPECT_TRUE(pool_.IsReadable(Gen(1, 2), At(128, 128)));
  EXPECT_TRUE(writing->BeginStep());
  writing->EndStep();
  EXPECT_EQ(HeaderAt(128), Gen(1, 2));
  viewer_.Release();
  EXPECT_THAT(pool_.Claim(Gen(1, 4), At(64, 512)), IsOk());
}

TEST_F(PinsTest, FreeingAViewedPartKeepsItsBytesUntilTheViewEnds) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "viewed"), IsOk());
  viewer_.Hold(Gen(1, 1));
  Free(Gen(1, 1));
  EXPECT_FALSE(pool_.IsReadable(Gen(1, 1), At(0, 128)));
  EXPECT_EQ(HeaderAt(0), Generation{});
  EXPECT_THAT(pool_.Inventory(), IsEmpty());
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(64, 64)), IsPinned());
  EXPECT_EQ(HeaderAt(0), Generation{});  // nothing was restored
  EXPECT_EQ(pool_.index().stats(0).pinned_parts, 1u);
  EXPECT_EQ(pool_.index().stats(0).sealed_parts, 0u);
  Free(Gen(1, 1));
  viewer_.Release();
  EXPECT_THAT(pool_.Put(Gen(1, 2), At(64, 64), "next"), IsOk());
  EXPECT_EQ(pool_.index().stats(0).pinned_parts, 0u);
}

TEST_F(PinsTest, AnotherViewersPinCountsToo) {
  FakeViewer second;
  pool_.index().AttachViewer(&second);
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "viewed"), IsOk());
  second.Hold(Gen(1, 1));
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 128)), IsPinned());
  pool_.index().DetachViewer(&second);  // its process died: the pin is gone
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 128)), IsOk());
}

TEST_F(PinsTest, AMappedClaimIsNotSuperseded) {
  ASSERT_OK_AND_ASSIGN(auto mapped, ClaimMapped(Gen(1, 1), At(0, 128)));
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(64, 128)), IsPinned());
  EXPECT_THAT(ClaimMapped(Gen(1, 1), At(0, 128)), IsPinned());
  mapped->SetWritten();
  ASSERT_THAT(pool_.index().Seal(RecordFor(Gen(1, 1), At(0, 128), "a")), IsOk());
  // Its process may still write.
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(64, 128)), IsPinned());
  mapped.reset();
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(64, 128)), IsOk());
}

TEST_F(PinsTest, AFreedMappedClaimKeepsItsBytesAndCannotSeal) {
  ASSERT_OK_AND_ASSIGN(auto mapped, ClaimMapped(Gen(1, 1), At(0, 128)));
  mapped->SetWritten();
  Free(Gen(1, 1));
  EXPECT_THAT(pool_.index().Seal(RecordFor(Gen(1, 1), At(0, 128), "late")),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 64)), IsPinned());
  EXPECT_EQ(pool_.index().stats(0).pinned_parts, 1u);
  mapped.reset();
  EXPECT_EQ(pool_.index().stats(0).pinned_parts, 0u);
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 64)), IsOk());
}

TEST_F(PinsTest, ASealedMappedClaimThatIsFreedAndViewedWaitsForBoth) {
  ASSERT_OK_AND_ASSIGN(auto mapped, ClaimMapped(Gen(1, 1), At(0, 128)));
  mapped->SetWritten();
  ASSERT_THAT(pool_.index().Seal(RecordFor(Gen(1, 1), At(0, 128), "a")), IsOk());
  viewer_.Hold(Gen(1, 1));
  Free(Gen(1, 1));
  mapped.reset();
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 64)), IsPinned());
  viewer_.Release();
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 64)), IsOk());
}

// What a viewer does: pin, then look at the header. Whatever the order, either it sees the invalid
// header or the index sees the pin.
class PinningAtTheWorstMoment final : public transport::ViewPins {
 public:
  explicit PinningAtTheWorstMoment(const std::byte* header) : header_(header) {}
  bool Holds(Generation) const override {
    seen_ = transport::LoadPartGeneration(header_);
    return false;
  }
  Generation seen() const { return seen_; }

 private:
  const std::byte* header_;
  mutable Generation seen_{~uint64_t{0}};
};

TEST_F(PinsTest, TheHeaderIsInvalidBeforeThePinsAreLookedAt) {
  const PinningAtTheWorstMoment viewer(pool_.base());
  pool_.index().AttachViewer(&viewer);
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  ASSERT_THAT(pool_.Claim(Gen(1, 2), At(0, 128)), IsOk());
  EXPECT_EQ(viewer.seen(), Generation{});
  ASSERT_THAT(pool_.Put(Gen(1, 3), At(0, 128), "a"), IsOk());
  Free(Gen(1, 3));
  EXPECT_EQ(viewer.seen(), Generation{});
  pool_.index().DetachViewer(&viewer);
}

TEST_F(PinsTest, StaleBytesThatLookLikeAHeaderAreInvalidatedByAClaim) {
  transport::EncodePartHeader({.generation = Gen(1, 1), .payload_bytes = 64}, pool_.base() + 64);
  ASSERT_OK_AND_ASSIGN(auto claim, pool_.Claim(Gen(1, 2), At(64, 128)));
  EXPECT_EQ(HeaderAt(64), Generation{});
}

}  // namespace
}  // namespace moonpool::storage_node
