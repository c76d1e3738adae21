#include "storage_node/pool/extent_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "storage_node/pool/freed_generations.h"
#include "storage_node/pool/testing/test_pool.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using transport::SealRecord;

constexpr uint64_t kCapacity = TestPool::kSegmentBytes;

TEST(ExtentIndex, APartIsReadableFromItsSealOn) {
  TestPool pool;
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 1), At(64, 1000)));
  EXPECT_EQ(claim->payload().size(), 1000 - kPartHeaderBytes);
  EXPECT_EQ(claim->payload().data(), pool.base() + 64 + kPartHeaderBytes);
  EXPECT_THAT(pool.index().OpenRead(Gen(1, 1), At(64, 1000)),
              Fails(StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  claim->SetWritten();
  SealRecord record = RecordFor(Gen(1, 1), At(64, 1000), "a");
  record.payload_checksum = Checksum(claim->payload());
  ASSERT_THAT(pool.index().Seal(record), IsOk());
  EXPECT_TRUE(pool.IsReadable(Gen(1, 1), At(64, 1000)));
  EXPECT_FALSE(claim->BeginStep());
}

TEST(ExtentIndex, OnlyTheExactExtentAndGenerationAreRead) {
  TestPool pool(2);
  ASSERT_THAT(pool.Put(Gen(1, 2), At(128, 256), "a"), IsOk());
  for (const Extent& extent : {At(128, 255), At(128, 257), At(64, 256), At(128, 256, 1),
                               At(128, 256, 99), At(kCapacity, 64), At(~uint64_t{0}, 64)}) {
    EXPECT_THAT(pool.index().OpenRead(Gen(1, 2), extent),
                Fails(StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  }
  EXPECT_FALSE(pool.IsReadable(Gen(1, 1), At(128, 256)));
  EXPECT_FALSE(pool.IsReadable(Gen(1, 3), At(128, 256)));
}

TEST(ExtentIndex, ImpossibleExtentsAreRefused) {
  TestPool pool;
  for (const Extent& extent :
       {At(1, 64), At(32, 128), At(0, 63), At(0, 0), At(0, kCapacity + 1), At(kCapacity, 64),
        At(64, kCapacity), At(~uint64_t{63}, 128), At(0, ~uint64_t{0}), At(0, 64, 1)}) {
    EXPECT_THAT(pool.Claim(Gen(1, 1), extent),
                Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument))
        << ToString(extent);
  }
  EXPECT_THAT(pool.Claim(Generation{}, At(0, 64)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(pool.Put(Gen(1, 1), At(0, kCapacity), "all"), IsOk());
  EXPECT_THAT(pool.Put(Gen(1, 2), At(0, kPartHeaderBytes), "nothing"), IsOk());
}

TEST(ExtentIndex, ANewerGenerationSupersedesOwnersOfAnyShape) {
  TestPool pool;
  ASSERT_THAT(pool.Put(Gen(1, 1), At(0, 256), "a"), IsOk());
  ASSERT_THAT(pool.Put(Gen(1, 2), At(256, 64), "b"), IsOk());
  ASSERT_OK_AND_ASSIGN(auto writing, pool.Claim(Gen(1, 3), At(320, 128)));
  ASSERT_THAT(pool.Put(Gen(1, 4), At(448, 512), "d"), IsOk());
  ASSERT_THAT(pool.Put(Gen(1, 5), At(1024, 128), "untouched"), IsOk());

  ASSERT_THAT(pool.Put(Gen(1, 6), At(192, 512), "new"), IsOk());

  EXPECT_FALSE(writing->BeginStep());
  EXPECT_FALSE(pool.IsReadable(Gen(1, 1), At(0, 256)));
  EXPECT_FALSE(pool.IsReadable(Gen(1, 4), At(448, 512)));
  EXPECT_EQ(transport::LoadPartGeneration(pool.base()), Generation{});
  EXPECT_TRUE(pool.IsReadable(Gen(1, 5), At(1024, 128)));
  EXPECT_THAT(pool.Inventory(), ElementsAre(::testing::Field(&SealRecord::key, "new"),
                                            ::testing::Field(&SealRecord::key, "untouched")));
}

TEST(ExtentIndex, AnOlderGenerationIsRefusedWhereverItTouchesANewerOne) {
  TestPool pool;
  ASSERT_THAT(pool.Put(Gen(1, 5), At(128, 128), "a"), IsOk());
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 6), At(512, 128)));
  for (const Extent& extent : {At(128, 128), At(64, 65), At(192, 64), At(0, 1024), At(576, 64)}) {
    EXPECT_THAT(pool.Claim(Gen(1, 4), extent),
                Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  }
  EXPECT_TRUE(claim->BeginStep());
  claim->EndStep();
  EXPECT_TRUE(pool.IsReadable(Gen(1, 5), At(128, 128)));
  EXPECT_THAT(pool.Claim(Gen(1, 4), At(256, 256)), IsOk());
}

TEST(ExtentIndex, OlderTermsAreRefusedOnceANewerIsKnown) {
  TestPool pool;
  ASSERT_THAT(pool.Put(Gen(1, 1), At(0, 128), "sealed before"), IsOk());
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 2), At(128, 128)));
  claim->SetWritten();
  pool.index().NoteTerm(Term{2});
  pool.index().NoteTerm(Term{1});
  EXPECT_EQ(pool.index().newest_term(), Term{2});
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 2), At(128, 128), "late")),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_THAT(pool.Claim(Gen(1, 3), At(256, 128)),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_TRUE(pool.IsReadable(Gen(1, 1), At(0, 128)));
  EXPECT_THAT(pool.Put(Gen(2, 1), At(0, 128), "new"), IsOk());
  // A generation of a term that no master told of does not lock out the others.
  EXPECT_THAT(pool.Put(Gen(9, 1), At(512, 128), "odd"), IsOk());
  EXPECT_THAT(pool.Put(Gen(2, 2), At(1024, 128), "new"), IsOk());
}

TEST(ExtentIndex, RepeatsOfAPutChangeNothing) {
  TestPool pool;
  ASSERT_THAT(pool.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  SealRecord record = pool.Inventory().front();
  EXPECT_THAT(pool.index().Seal(record), IsOk());
  EXPECT_THAT(pool.Claim(Gen(1, 1), At(0, 128)),
              Fails(StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  pool.index().NoteTerm(Term{2});  // the answer is a fact, whatever the term
  EXPECT_THAT(pool.index().Seal(record), IsOk());
  EXPECT_THAT(pool.Claim(Gen(1, 1), At(0, 128)), StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(pool.index().TakeSealReports(10), SizeIs(1));

  record.key = "b";
  EXPECT_THAT(pool.index().Seal(record),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
  EXPECT_TRUE(pool.IsReadable(Gen(1, 1), At(0, 128)));
}

TEST(ExtentIndex, WhatArrivedIsWhatIsSealed) {
  TestPool pool;
  auto record = RecordFor(Gen(1, 1), At(0, 128), "a");
  record.payload_checksum = 77;
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 1), At(0, 128)));
  claim->SetWritten(78);
  EXPECT_THAT(pool.index().Seal(record),
              Fails(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  EXPECT_THAT(pool.Inventory(), IsEmpty());
  EXPECT_FALSE(pool.IsReadable(Gen(1, 1), At(0, 128)));
  // The writer may try again, under the same generation.
  ASSERT_OK_AND_ASSIGN(claim, pool.Claim(Gen(1, 1), At(0, 128)));
  claim->SetWritten(77);
  EXPECT_THAT(pool.index().Seal(record), IsOk());
  EXPECT_THAT(pool.Inventory(), SizeIs(1));
}

TEST(ExtentIndex, ASecondClaimOfTheSameWriterReplacesTheFirst) {
  TestPool pool;
  ASSERT_OK_AND_ASSIGN(auto first, pool.Claim(Gen(1, 1), At(0, 128)));
  first->SetWritten();
  ASSERT_OK_AND_ASSIGN(auto second, pool.Claim(Gen(1, 1), At(0, 128)));
  EXPECT_FALSE(first->BeginStep());
  first.reset();
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 1), At(0, 128), "a")),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
  EXPECT_TRUE(second->BeginStep());
  second->EndStep();
  second->SetWritten();
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 1), At(0, 128), "a")), IsOk());
}

TEST(ExtentIndex, PartsOfOneGenerationDoNotOverlap) {
  TestPool pool;
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 1), At(0, 128)));
  EXPECT_THAT(pool.Claim(Gen(1, 1), At(64, 128)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(pool.Claim(Gen(1, 1), At(0, 64)), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(pool.Claim(Gen(1, 1), At(128, 128)), IsOk());
}

TEST(ExtentIndex, SealChecksWhatItIsTold) {
  TestPool pool;
  const Extent extent = At(0, 1064);
  const SealRecord good = RecordFor(Gen(1, 1), extent, "a");
  EXPECT_THAT(pool.index().Seal(good),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 1), extent));
  EXPECT_THAT(pool.index().Seal(good),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
  claim->SetWritten();

  const auto refuses = [&](auto change, StatusCode code) {
    SealRecord record = good;
    change(record);
    EXPECT_THAT(pool.index().Seal(record), StatusIs(code));
  };
  const auto bad = StatusCode::kInvalidArgument;
  refuses([](SealRecord& r) { r.key = ""; }, bad);
  refuses([](SealRecord& r) { r.key.assign(kMaxKeyBytes + 1, 'k'); }, bad);
  refuses([](SealRecord& r) { r.parent.assign(kMaxKeyBytes + 1, 'k'); }, bad);
  refuses([](SealRecord& r) { r.name_space.assign(kMaxNamespaceBytes + 1, 'k'); }, bad);
  refuses([](SealRecord& r) { r.part_index = 1; }, bad);
  refuses([](SealRecord& r) { r.part_count = 0; }, bad);
  refuses([](SealRecord& r) { r.part_count = kMaxPartsPerReplica + 1; }, bad);
  refuses([](SealRecord& r) { r.replica_index = kMaxReplicas; }, bad);
  refuses([](SealRecord& r) { r.object_bytes = 999; }, bad);
  refuses([](SealRecord& r) { r.object_bytes = 1001; }, bad);
  refuses([](SealRecord& r) { r.part_count = 2, r.object_bytes = 999; }, bad);
  refuses([](SealRecord& r) { r.extent.segment.value = 7; }, bad);
  refuses([](SealRecord& r) { r.extent.length = 63; }, bad);
  refuses([](SealRecord& r) { r.extent.offset = ~uint64_t{63}; }, bad);
  refuses([](SealRecord& r) { r.extent.length = 1000, r.object_bytes = 936; },
          StatusCode::kFailedPrecondition);
  refuses([](SealRecord& r) { r.generation = Gen(1, 2); }, StatusCode::kFailedPrecondition);
  EXPECT_THAT(pool.index().Seal(good), IsOk());
}

TEST(ExtentIndex, ADestroyedClaimGivesUpWhatWasNotSealed) {
  TestPool pool;
  ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 5), At(0, 128)));
  claim->SetWritten();
  claim.reset();
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 5), At(0, 128), "a")),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
  EXPECT_THAT(pool.Claim(Gen(1, 4), At(0, 128)),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_THAT(pool.Put(Gen(1, 5), At(0, 128), "again"), IsOk());
  EXPECT_EQ(pool.index().stats(0).live_claims, 0u);
}

TEST(ExtentIndex, FreeForgetsAllPartsOfAGenerationAndInvalidatesTheirHeaders) {
  TestPool pool(2);
  SealRecord record = RecordFor(Gen(1, 1), At(0, 128), "striped");
  record.part_count = 2;
  record.object_bytes = 128;
  for (const uint32_t part : {0u, 1u}) {
    record.extent = At(0, 128, part);
    record.part_index = static_cast<uint16_t>(part);
    ASSERT_OK_AND_ASSIGN(auto claim, pool.Claim(Gen(1, 1), record.extent));
    claim->SetWritten();
    ASSERT_THAT(pool.index().Seal(record), IsOk());
  }
  ASSERT_OK_AND_ASSIGN(auto writing, pool.Claim(Gen(1, 2), At(256, 128)));
  const Generation freed[] = {Gen(1, 1), Gen(1, 2), Gen(7, 7)};
  uint64_t parts = pool.index().Free(freed);
  EXPECT_EQ(parts, 3u);
  EXPECT_FALSE(writing->BeginStep());
  EXPECT_THAT(pool.Inventory(), IsEmpty());
  EXPECT_EQ(transport::LoadPartGeneration(pool.base(0)), Generation{});
  EXPECT_EQ(transport::LoadPartGeneration(pool.base(1)), Generation{});
  parts = pool.index().Free(freed);
  EXPECT_EQ(parts, 0u);
  EXPECT_THAT(pool.index().TakeSealReports(10), IsEmpty());
}

TEST(ExtentIndex, WhatWasFreedIsNotWrittenAgain) {
  TestPool pool(2);
  ASSERT_THAT(pool.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  ASSERT_OK_AND_ASSIGN(auto writing, pool.Claim(Gen(1, 2), At(256, 128)));
  writing->SetWritten();
  // The last one has not come here yet.
  const Generation freed[] = {Gen(1, 1), Gen(1, 2), Gen(1, 3)};
  pool.index().Free(freed);
  const auto is_refused = Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration);
  EXPECT_THAT(pool.Put(Gen(1, 1), At(0, 128), "a"), is_refused) << "a packet that came twice";
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 2), At(256, 128), "b")), is_refused);
  EXPECT_THAT(pool.Put(Gen(1, 3), At(512, 128, 1), "c"), is_refused) << "a late writer";
  EXPECT_THAT(pool.Put(Gen(1, 4), At(0, 128), "a"), IsOk());
}

TEST(ExtentIndex, AnOpenGrantIsWrittenWhileAllThatIsFreedMeanwhileIsRemembered) {
  TestPool pool;
  constexpr uint32_t kFrees = kFreedGenerationsMax;
  const auto is_refused = Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration);
  ASSERT_OK_AND_ASSIGN(const auto writing, pool.Claim(Gen(1, 1), At(0, 128)));
  // Sealed by a peer that made its generation up: the master has never granted it.
  const Generation forged[] = {Gen(1, ~0u), Gen(1, kFrees + 3)};
  for (const Generation generation : forged) {
    ASSERT_THAT(pool.Put(generation, At(256, 128), "forged"), IsOk());
    const Generation freed[] = {generation};
    pool.index().Free(freed, {.oldest_open = Gen(1, 1), .newest = Gen(1, 2)});
  }
  for (uint32_t counter = 3; counter < 3 + kFrees; ++counter) {
    const Generation freed[] = {Gen(1, counter)};
    pool.index().Free(freed, {.oldest_open = Gen(1, 1), .newest = Gen(1, counter)});
  }
  writing->SetWritten();
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 1), At(0, 128), "a")), IsOk());
  EXPECT_THAT(pool.Put(Gen(1, 2), At(128, 128), "b"), IsOk()) << "granted early, written late";
  EXPECT_THAT(pool.Put(Gen(1, 3), At(512, 128), "c"), is_refused) << "the first to be freed";
  EXPECT_THAT(pool.Put(Gen(1, 2 + kFrees), At(512, 128), "d"), is_refused);
  EXPECT_THAT(pool.Put(Gen(1, 3 + kFrees), At(256, 128), "e"), IsOk()) << "now it is granted";

  // One more, and it is not known any more of what is as old whether it was freed.
  const Generation one_more[] = {Gen(1, 3 + kFrees)};
  pool.index().Free(one_more, {.oldest_open = Gen(1, 1), .newest = Gen(1, 3 + kFrees)});
  EXPECT_THAT(pool.Put(Gen(1, 2), At(768, 128), "b"), is_refused) << "start anew";
  EXPECT_THAT(pool.Put(Gen(1, 4 + kFrees), At(768, 128), "f"), IsOk());
}

TEST(ExtentIndex, WhatIsOlderThanAllOpenGrantsIsNotWrittenAnyMore) {
  TestPool pool;
  ASSERT_THAT(pool.Put(Gen(2, 5), At(0, 128), "a"), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto late, pool.Claim(Gen(2, 6), At(128, 128)));
  late->SetWritten();
  pool.index().Free({}, {.oldest_open = Gen(2, 8), .newest = Gen(2, 9)});
  const auto is_over = Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration);
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(2, 6), At(128, 128), "b")), is_over);
  const absl::Status refused = pool.Put(Gen(2, 7), At(256, 128), "c");
  EXPECT_THAT(refused, is_over);
  EXPECT_THAT(refused.message(), HasSubstr("no grant open that is as old"));
  EXPECT_THAT(pool.Put(Gen(2, 8), At(256, 128), "c"), IsOk());
  // What is sealed stays, and its writer may say so again.
  EXPECT_TRUE(pool.IsReadable(Gen(2, 5), At(0, 128)));
  EXPECT_THAT(pool.Claim(Gen(2, 5), At(0, 128)), StatusIs(StatusCode::kAlreadyExists));
  transport::SealRecord again = RecordFor(Gen(2, 5), At(0, 128), "a");
  again.payload_checksum = transport::DecodePartHeader({pool.base(), 64})->payload_checksum;
  EXPECT_THAT(pool.index().Seal(again), IsOk());
  // An order that was long under way lowers nothing.
  pool.index().Free({}, {.oldest_open = Gen(2, 1), .newest = Gen(2, 9)});
  EXPECT_THAT(pool.Put(Gen(2, 7), At(512, 128), "c"), is_over);
}

TEST(FreedGenerations, OnlyTheWindowIsRemembered) {
  FreedGenerations freed(100);
  for (uint32_t counter = 20; counter < 1000; ++counter) {
    const GrantWindow window{.oldest_open = Gen(1, counter - 10), .newest = Gen(1, counter)};
    freed.RaiseTo(window);
    freed.Add(Gen(1, counter), window);
    freed.Add(Gen(1, counter - 15), window);
    freed.Add(Gen(1, counter + 1), window);
    ASSERT_LE(freed.size(), 11u);
    ASSERT_NE(freed.WhyRefused(Gen(1, counter - 11)), nullptr) << "over";
    ASSERT_EQ(freed.WhyRefused(Gen(1, counter + 1)), nullptr) << "never granted";
  }
}

TEST(FreedGenerations, WhatIsForgottenIsRefusedWithAllThatIsOlder) {
  FreedGenerations freed(2);
  const GrantWindow window{.oldest_open = Gen(1, 1), .newest = Gen(1, 30)};
  for (const uint32_t counter : {10u, 5u, 20u}) freed.Add(Gen(1, counter), window);
  EXPECT_THAT(freed.WhyRefused(Gen(1, 20)), HasSubstr("was given up"));
  EXPECT_THAT(freed.WhyRefused(Gen(1, 10)), HasSubstr("was given up"));
  EXPECT_THAT(freed.WhyRefused(Gen(1, 5)), HasSubstr("perhaps this one too"));
  EXPECT_THAT(freed.WhyRefused(Gen(1, 4)), HasSubstr("perhaps this one too"));
  EXPECT_EQ(freed.WhyRefused(Gen(1, 6)), nullptr) << "newer than what was forgotten";
  freed.Add(Gen(1, 20), window);
  EXPECT_EQ(freed.WhyRefused(Gen(1, 6)), nullptr) << "known already";
}

TEST(FreedGenerations, AMasterThatDoesNotSayWhatItGrantedHasNothingRefusedButWhatItNames) {
  FreedGenerations freed(2);
  for (const uint32_t counter : {10u, ~0u, 20u, 15u}) freed.Add(Gen(1, counter), {});
  EXPECT_NE(freed.WhyRefused(Gen(1, 20)), nullptr);
  EXPECT_NE(freed.WhyRefused(Gen(1, ~0u)), nullptr);
  for (const uint32_t counter : {9u, 12u, 21u}) {
    EXPECT_EQ(freed.WhyRefused(Gen(1, counter)), nullptr) << counter;
  }
}

TEST(ExtentIndex, TheInventoryComesInSlicesAndSurvivesChanges) {
  TestPool pool(2);
  uint32_t counter = 0;
  for (uint32_t segment = 0; segment < 2; ++segment) {
    for (uint64_t offset = 0; offset < 10; ++offset) {
      const Extent extent = At(offset * 1024, 512, segment);
      ++counter;
      ASSERT_THAT(pool.Put(Gen(1, counter), extent, absl::StrCat(counter)), IsOk());
    }
  }
  ASSERT_OK_AND_ASSIGN(auto writing, pool.Claim(Gen(1, 99), At(20 * 1024, 512)));
  InventorySlice slice = pool.index().NextInventory({}, 3);
  EXPECT_THAT(slice.records, SizeIs(3));
  const Generation behind[] = {Gen(1, 1), Gen(1, 4)};  // the cursor stands on the second
  pool.index().Free(behind);
  size_t rest = 0;
  while (!slice.is_last) {
    slice = pool.index().NextInventory(slice.next, 3);
    EXPECT_LE(slice.records.size(), 3u);
    rest += slice.records.size();
  }
  EXPECT_EQ(rest, 16u);
  EXPECT_THAT(pool.Inventory(4), SizeIs(18));
}

TEST(ExtentIndex, SealsWaitToBeReportedUpToABound) {
  TestPool pool(1, {.seal_reports_max = 2});
  int notified = 0;
  pool.index().seal_reports().SetOnPending([&] { ++notified; });
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_THAT(pool.Put(Gen(1, i + 1), At(i * 128, 128), absl::StrCat(i)), IsOk());
  }
  EXPECT_EQ(notified, 1);
  EXPECT_TRUE(pool.index().seal_reports().has_overflowed());
  EXPECT_THAT(pool.index().TakeSealReports(1), SizeIs(1));
  pool.index().seal_reports().Clear();
  EXPECT_FALSE(pool.index().seal_reports().has_overflowed());
  EXPECT_THAT(pool.index().TakeSealReports(10), IsEmpty());
  ASSERT_THAT(pool.Put(Gen(1, 9), At(0, 128), "x"), IsOk());
  EXPECT_EQ(notified, 2);
}

TEST(ExtentIndex, PartsAreBounded) {
  TestPool pool(1, {.parts_per_segment_max = 2});
  ASSERT_THAT(pool.Put(Gen(1, 1), At(0, 64), "a"), IsOk());
  ASSERT_THAT(pool.Put(Gen(1, 2), At(64, 64), "b"), IsOk());
  EXPECT_THAT(pool.Put(Gen(1, 3), At(128, 64), "c"),
              Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_THAT(pool.Put(Gen(1, 3), At(64, 64), "c"), IsOk());
}

}  // namespace
}  // namespace moonpool::storage_node
