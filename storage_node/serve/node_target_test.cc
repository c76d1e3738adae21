#include "storage_node/serve/node_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {
namespace {

using ::testing::HasSubstr;
using transport::WriterKind;

class NodeTargetTest : public ::testing::Test {
 protected:
  NodeTargetTest() { pool_.index().NoteTerm(Term{1}); }

  metrics::Registry registry_;
  ServeMetrics metrics_{registry_};
  TestPool pool_;
  NodeTarget target_{Incarnation{7}, pool_.index(), metrics_};
};

TEST_F(NodeTargetTest, PutsAndReadsGoToThePoolAndAreCounted) {
  EXPECT_EQ(target_.incarnation(), Incarnation{7});
  const Extent extent = At(0, 128);
  ASSERT_OK_AND_ASSIGN(auto claim, target_.Claim(Gen(1, 1), extent, WriterKind::kStepwise));
  claim->SetWritten();
  ASSERT_THAT(target_.Seal(RecordFor(Gen(1, 1), extent, "a")), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto bytes, target_.OpenRead(Gen(1, 1), extent));
  EXPECT_EQ(bytes.data(), pool_.base());
  EXPECT_EQ(bytes.size(), 128u);
  EXPECT_EQ(metrics_.claims.value(), 1u);
  EXPECT_EQ(metrics_.seals.value(), 1u);
  EXPECT_EQ(metrics_.sealed_bytes.value(), 128u);
  EXPECT_EQ(metrics_.reads.value(), 1u);
  EXPECT_EQ(metrics_.read_bytes.value(), 128u);
}

TEST_F(NodeTargetTest, RefusalsAreCountedByReason) {
  EXPECT_FALSE(target_.OpenRead(Gen(1, 1), At(0, 128)).ok());
  EXPECT_FALSE(target_.Claim(Gen(1, 1), At(1, 128), WriterKind::kStepwise).ok());
  EXPECT_FALSE(target_.Seal(RecordFor(Gen(1, 1), At(0, 128), "a")).ok());
  const std::string text = registry_.Text();
  EXPECT_THAT(text, HasSubstr("moonpool_node_refused_total{reason=\"stale_generation\"} 2"));
  EXPECT_THAT(text, HasSubstr("moonpool_node_refused_total{reason=\"bad_argument\"} 1"));
}

TEST_F(NodeTargetTest, AForgedTermLocksNobodyOut) {
  EXPECT_THAT(target_.Claim(Gen(0xffff0000, 1), At(0, 128), WriterKind::kStepwise),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_THAT(target_.Claim(Gen(1, 1), At(0, 128), WriterKind::kStepwise), IsOk());
  pool_.index().NoteTerm(Term{2});
  EXPECT_THAT(target_.Claim(Gen(2, 1), At(0, 128), WriterKind::kStepwise), IsOk());
}

TEST_F(NodeTargetTest, ADoubtWaitsForTheScrubber) {
  int wakes = 0;
  pool_.index().doubted_parts().SetOnPending([&] { ++wakes; });
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  target_.Doubt(Gen(1, 2), At(0, 128));
  EXPECT_EQ(wakes, 0);
  target_.Doubt(Gen(1, 1), At(0, 128));
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(pool_.index().doubted_parts().Take(), (PartAt{Gen(1, 1), At(0, 128)}));
}

TEST_F(NodeTargetTest, AttachedViewersPin) {
  FakeViewer viewer;
  target_.AttachViewer(&viewer);
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  viewer.Hold(Gen(1, 1));
  EXPECT_THAT(target_.Claim(Gen(1, 2), At(0, 128), WriterKind::kStepwise),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  target_.DetachViewer(&viewer);
  EXPECT_THAT(target_.Claim(Gen(1, 2), At(0, 128), WriterKind::kStepwise), IsOk());
}

}  // namespace
}  // namespace moonpool::storage_node
