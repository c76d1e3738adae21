#include "storage_node/scrub/scrubber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "storage_node/pool/testing/test_pool.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kRate = 10'000;
constexpr uint64_t kStep = 1000;

class ScrubberTest : public ::testing::Test {
 protected:
  ScrubberTest() { pool_.index().NoteTerm(Term{1}); }

  // Steps until a round has ended; how long it took, by what the scrubber asked for.
  absl::Duration Round() {
    const absl::Time begin = now_;
    for (const uint64_t rounds = metrics_.rounds.value(); metrics_.rounds.value() == rounds;) {
      end_ = now_;
      now_ = scrubber_.Step(now_);
    }
    return end_ - begin;
  }
  void Flip(uint64_t at) { pool_.base()[at] ^= std::byte{4}; }
  std::vector<PartAt> Lost() { return pool_.index().lost_parts().Take(100); }

  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(100);
  absl::Time end_;
  TestLogger log_;
  metrics::Registry registry_;
  ScrubMetrics metrics_{registry_};
  TestPool pool_{2};
  Scrubber scrubber_{
      pool_.index(),
      {.bytes_per_second = kRate, .step_bytes = kStep, .round_min = absl::Minutes(1)},
      metrics_,
      log_.logger()};
};

TEST_F(ScrubberTest, WhatIsWholeStays) {
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, 1 + i), At(i * 3072, 64 + i * 150, i % 2), absl::StrCat("k", i)),
                IsOk());
  }
  const auto before = pool_.Inventory();
  Round();
  Round();
  EXPECT_EQ(pool_.Inventory(), before);
  EXPECT_EQ(metrics_.damaged_parts.value(), 0u);
  EXPECT_THAT(Lost(), IsEmpty());
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(ScrubberTest, ADamagedPayloadIsForgottenAndReported) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 5000), "a"), IsOk());
  ASSERT_THAT(pool_.Put(Gen(1, 2), At(5056, 5000), "b"), IsOk());
  for (const uint64_t at : {uint64_t{64}, uint64_t{4999}}) {
    Flip(at);
    Round();
    EXPECT_FALSE(pool_.IsReadable(Gen(1, 1), At(0, 5000)));
    EXPECT_EQ(transport::LoadPartGeneration(pool_.base()), Generation{});
    EXPECT_THAT(pool_.Inventory(), SizeIs(1));
    const std::vector<PartAt> lost = Lost();
    ASSERT_THAT(lost, SizeIs(1));
    EXPECT_EQ(lost[0].generation, Gen(1, 1));
    EXPECT_EQ(lost[0].extent, At(0, 5000));
    // It is not given up: whoever has it may write it again.
    ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 5000), "a"), IsOk());
  }
  EXPECT_TRUE(pool_.IsReadable(Gen(1, 2), At(5056, 5000)));
  EXPECT_EQ(metrics_.damaged_parts.value(), 2u);
  EXPECT_EQ(pool_.index().stats(0).damaged_parts, 2u);
  EXPECT_THAT(log_.lines(),
              Contains("error a part is damaged and forgotten namespace=default key=a "
                       "generation=1.1 extent=\"segment 0 [0, 5000)\" damaged=payload"));
}

TEST_F(ScrubberTest, EveryByteOfAHeaderCounts) {
  for (uint64_t at = 0; at < kPartHeaderBytes; ++at) {
    const Generation generation = Gen(1, static_cast<uint32_t>(1 + at));
    ASSERT_THAT(pool_.Put(generation, At(0, 192), "a"), IsOk());
    Flip(at);
    Round();
    EXPECT_THAT(pool_.Inventory(), IsEmpty()) << at;
    EXPECT_THAT(Lost(), SizeIs(1)) << at;
  }
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("damaged=header")));
}

TEST_F(ScrubberTest, AnEmptyPayloadHasAHeader) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 64), "a"), IsOk());
  Round();
  EXPECT_THAT(pool_.Inventory(), SizeIs(1));
  Flip(30);
  Round();
  EXPECT_THAT(pool_.Inventory(), IsEmpty());
}

TEST_F(ScrubberTest, ItKeepsToItsRateAndToItsRounds) {
  constexpr uint64_t kBytes = 30'000;
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, kBytes / 2), "a"), IsOk());
  ASSERT_THAT(pool_.Put(Gen(1, 2), At(0, kBytes / 2, 1), "b"), IsOk());
  const absl::Time begin = now_;
  constexpr double kSeconds = static_cast<double>(kBytes) / kRate;
  constexpr double kStepSeconds = static_cast<double>(kStep + kPartHeaderBytes) / kRate;
  EXPECT_NEAR(absl::ToDoubleSeconds(Round()), kSeconds, kStepSeconds);
  EXPECT_EQ(metrics_.bytes.value(), kBytes);
  EXPECT_NEAR(metrics_.last_round_seconds.value(), kSeconds, kStepSeconds);
  // The next begins a while after the last.
  EXPECT_EQ(now_, begin + absl::Minutes(1));
  EXPECT_EQ(scrubber_.Step(now_ - absl::Seconds(1)), now_);
  EXPECT_EQ(metrics_.bytes.value(), kBytes);
  scrubber_.Step(now_);
  EXPECT_EQ(metrics_.bytes.value(), kBytes + kStep);
}

TEST_F(ScrubberTest, AnEmptyPoolIsLookedAtOncePerRound) {
  EXPECT_EQ(Round(), absl::ZeroDuration());
  EXPECT_EQ(now_ - end_, absl::Minutes(1));
}

// No rounds: only what a reader has doubted.
class DoubtTest : public ScrubberTest {
 protected:
  void Doubt(Generation generation, const Extent& extent) {
    pool_.index().Doubt(generation, extent);
  }
  // Steps until there is nothing to do; how long it took.
  absl::Duration Look() {
    const absl::Time begin = now_;
    absl::Time next = now_;
    while ((next = looker_.Step(now_)) != absl::InfiniteFuture()) now_ = next;
    return now_ - begin;
  }
  Scrubber looker_{pool_.index(),
                   {.bytes_per_second = 0, .step_bytes = kStep, .doubted_bytes_per_second = kRate},
                   metrics_,
                   log_.logger()};
};

TEST_F(DoubtTest, WhatIsDamagedIsForgottenWithoutARound) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 5000), "a"), IsOk());
  ASSERT_THAT(pool_.Put(Gen(1, 2), At(5056, 5000), "b"), IsOk());
  Flip(4000);
  Flip(9000);
  EXPECT_EQ(Look(), absl::ZeroDuration());
  EXPECT_THAT(pool_.Inventory(), SizeIs(2));
  Doubt(Gen(1, 1), At(0, 5000));
  Look();
  EXPECT_EQ(metrics_.doubted_parts.value(), 1u);
  EXPECT_EQ(metrics_.damaged_parts.value(), 1u);
  ASSERT_THAT(Lost(), SizeIs(1));
  EXPECT_EQ(pool_.Inventory()[0].key, "b") << "nobody has doubted it";
  EXPECT_EQ(metrics_.rounds.value(), 0u);
}

TEST_F(DoubtTest, NobodyIsBelieved) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 5000), "a"), IsOk());
  Doubt(Gen(1, 1), At(0, 5000));
  Doubt(Gen(1, 1), At(0, 4992));
  Doubt(Gen(1, 2), At(0, 5000));
  Doubt(Gen(1, 1), At(0, 5000, /*segment=*/7));
  Look();
  EXPECT_EQ(metrics_.doubted_parts.value(), 1u) << "of the others nothing is here";
  EXPECT_THAT(pool_.Inventory(), SizeIs(1));
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(DoubtTest, RepeatedDoubtsCostOneLook) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 5000), "a"), IsOk());
  for (int i = 0; i < 100; ++i) Doubt(Gen(1, 1), At(0, 5000));
  now_ = looker_.Step(now_);
  EXPECT_LT(metrics_.bytes.value(), 5000u);
  Doubt(Gen(1, 1), At(0, 5000));  // it is being looked at
  Look();
  EXPECT_EQ(metrics_.bytes.value(), 5000u);
  Doubt(Gen(1, 1), At(0, 5000));
  Look();
  EXPECT_EQ(metrics_.bytes.value(), 10'000u) << "it may have been damaged since";
}

TEST_F(DoubtTest, LooksKeepToARateAndTheirNumberToABound) {
  for (uint32_t i = 0; i < 200; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, 1 + i), At(i * 128, 128), absl::StrCat("k", i)), IsOk());
  }
  for (uint32_t i = 0; i < 200; ++i) Doubt(Gen(1, 1 + i), At(i * 128, 128));
  const uint64_t looked_at = ExtentIndexOptions().doubted_parts_max * 128;
  EXPECT_NEAR(absl::ToDoubleSeconds(Look()), static_cast<double>(looked_at) / kRate, 0.01);
  EXPECT_EQ(metrics_.bytes.value(), looked_at);
}

TEST_F(DoubtTest, RoundsGoOnBesideThem) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 5000), "a"), IsOk());
  ASSERT_THAT(pool_.Put(Gen(1, 2), At(5056, 5000), "b"), IsOk());
  now_ = scrubber_.Step(now_);  // in the middle of the first
  Flip(9000);
  Doubt(Gen(1, 2), At(5056, 5000));
  for (const uint64_t before = metrics_.bytes.value(); pool_.Inventory().size() == 2;) {
    ASSERT_LT(metrics_.bytes.value(), before + 8000) << "the round came there first";
    now_ = scrubber_.Step(now_);
  }
  Round();
  EXPECT_EQ(metrics_.damaged_parts.value(), 1u);
  EXPECT_THAT(pool_.Inventory(), SizeIs(1));
}

// While its first half was hashed, not its second: whoever has the bytes now is not damaged.
class ChangedMeanwhileTest : public ScrubberTest {
 protected:
  ChangedMeanwhileTest() {
    EXPECT_THAT(pool_.Put(Gen(1, 1), kThere, "a", std::byte{1}), IsOk());
    now_ = scrubber_.Step(now_);
    EXPECT_EQ(metrics_.bytes.value(), kStep);
  }
  void ExpectNothingLost(size_t parts) {
    Round();
    EXPECT_THAT(pool_.Inventory(), SizeIs(parts));
    EXPECT_THAT(Lost(), IsEmpty());
    EXPECT_EQ(metrics_.damaged_parts.value(), 0u);
  }
  uint64_t Free(Generation generation) {
    const Generation generations[] = {generation};
    return pool_.index().Free(generations);
  }
  static inline const Extent kThere = At(0, 1564);
};

TEST_F(ChangedMeanwhileTest, ItWasSuperseded) {
  ASSERT_THAT(pool_.Put(Gen(1, 2), kThere, "b", std::byte{2}), IsOk());
  ExpectNothingLost(1);
}

TEST_F(ChangedMeanwhileTest, ItsBytesAreBeingWritten) {
  ASSERT_OK_AND_ASSIGN(const auto claim, pool_.Claim(Gen(1, 2), kThere));
  claim->payload()[1499] = std::byte{2};
  ExpectNothingLost(0);
}

TEST_F(ChangedMeanwhileTest, ItWasFreedAndCameBackAsACopy) {
  ASSERT_EQ(Free(Gen(1, 1)), 1u);
  ASSERT_THAT(pool_.PutCopy(Gen(1, 5), Gen(1, 1), kThere, "a", std::byte{3}), IsOk());
  ExpectNothingLost(1);
}

TEST_F(ChangedMeanwhileTest, ACopyWasFreedAndCameBackAsAnother) {
  Round();
  ASSERT_EQ(Free(Gen(1, 1)), 1u);
  ASSERT_THAT(pool_.PutCopy(Gen(1, 5), Gen(1, 1), kThere, "a", std::byte{3}), IsOk());
  now_ = scrubber_.Step(now_);  // half of it
  ASSERT_EQ(Free(Gen(1, 5)), 1u);
  ASSERT_THAT(pool_.PutCopy(Gen(1, 6), Gen(1, 1), kThere, "a", std::byte{4}), IsOk());
  ExpectNothingLost(1);
}

TEST_F(ScrubberTest, DamagedBytesThatAreViewedStayTakenAndOutOfTheJournal) {
  FakeViewer viewer;
  pool_.index().AttachViewer(&viewer);
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 1000), "a"), IsOk());
  viewer.Hold(Gen(1, 1));
  Flip(500);
  Round();
  EXPECT_THAT(pool_.Inventory(), IsEmpty());
  EXPECT_THAT(Lost(), SizeIs(1));
  EXPECT_EQ(pool_.index().stats(0).pinned_parts, 1u);
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 1000)).status(),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  viewer.Release();
  EXPECT_THAT(pool_.Claim(Gen(1, 2), At(0, 1000)).status(), IsOk());
  pool_.index().DetachViewer(&viewer);
}

TEST_F(ScrubberTest, MemoryThatFailsByThePageDoesNotFillTheLog) {
  for (uint32_t i = 0; i < 200; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, 1 + i), At(i * 128, 128), absl::StrCat("k", i)), IsOk());
    Flip(i * 128 + 100);
  }
  Round();
  EXPECT_EQ(metrics_.damaged_parts.value(), 200u);
  EXPECT_THAT(log_.lines(), SizeIs(21));
  EXPECT_THAT(log_.lines().back(), HasSubstr("parts=200"));
}

}  // namespace
}  // namespace moonpool::storage_node
