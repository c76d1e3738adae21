#include "storage_node/journal/table_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "storage_node/journal/testing/test_table.h"
#include "storage_node/pool/testing/test_pool.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using transport::WriterKind;

// One life after the other on the same bytes: each starts from a copy of what the last one left, as
// it stood at that moment, so that nothing the dead one still does is seen.
class Lives : public ::testing::Test {
 protected:
  Lives() {
    auto created = table_.Create();
    EXPECT_THAT(created, IsOk());
    journal_.emplace(*std::move(created));
    pool_ = std::make_unique<TestPool>(1, ExtentIndexOptions{}, &*journal_);
    pool_->index().NoteTerm(Term{1});
  }

  RestoreReport Restart(bool has_floor = true) {
    const std::vector<std::byte> bytes(pool_->base(), pool_->base() + TestPool::kSegmentBytes);
    pool_.reset();
    auto opened = table_.Open();
    EXPECT_THAT(opened, IsOk());
    journal_.emplace(*std::move(opened));
    pool_ = std::make_unique<TestPool>(1, ExtentIndexOptions{}, &*journal_);
    std::copy(bytes.begin(), bytes.end(), pool_->base());
    const RestoreReport report = RestoreIndex(*journal_, pool_->index());
    if (has_floor) pool_->index().SetFloor({});
    return report;
  }

  ExtentIndex& index() { return pool_->index(); }
  auto ClaimMapped(Generation generation, const Extent& extent) {
    return index().Claim(generation, extent, WriterKind::kMapped);
  }

  TestTable table_;
  std::optional<TableJournal> journal_;
  std::unique_ptr<TestPool> pool_;
};

TEST_F(Lives, SealedPartsAreThereAgain) {
  ASSERT_THAT(pool_->Put(Gen(1, 1), At(0, 1000), "a"), IsOk());
  ASSERT_THAT(pool_->Put(Gen(1, 2), At(1024, 64), "b"), IsOk());
  const auto before = pool_->Inventory();
  const RestoreReport report = Restart();
  EXPECT_EQ(report.parts, 2u);
  EXPECT_EQ(report.bytes, 1064u);
  EXPECT_EQ(report.damaged + report.malformed + report.not_in_pool + report.superseded, 0u);
  EXPECT_EQ(pool_->Inventory(), before);
  EXPECT_TRUE(pool_->IsReadable(Gen(1, 1), At(0, 1000)));
  EXPECT_EQ(index().newest_term(), Term{1});
  // And it goes on as if nothing had been.
  ASSERT_THAT(pool_->Put(Gen(1, 3), At(0, 128), "c"), IsOk());
  EXPECT_FALSE(pool_->IsReadable(Gen(1, 1), At(0, 1000)));
  const Generation freed[] = {Gen(1, 2)};
  EXPECT_EQ(index().Free(freed), 1u);
  Restart();
  ASSERT_THAT(pool_->Inventory(), SizeIs(1));
  EXPECT_EQ(pool_->Inventory()[0].key, "c");
}

TEST_F(Lives, WhatWasNotSealedIsGone) {
  ASSERT_OK_AND_ASSIGN(auto claim, pool_->Claim(Gen(1, 1), At(0, 128)));
  claim->SetWritten();
  claim.reset();
  EXPECT_EQ(Restart().parts, 0u);
  EXPECT_EQ(index().stats(0).writing_parts, 0u);
  EXPECT_THAT(index().Seal(RecordFor(Gen(1, 1), At(0, 128), "a")),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_THAT(pool_->Put(Gen(1, 1), At(0, 128), "a"), IsOk());
}

// Its owner was about to be replaced, or found to be pinned: as long as the journal has the part,
// nobody has written there.
TEST_F(Lives, AnInvalidatedHeaderIsMadeWhole) {
  ASSERT_THAT(pool_->Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  transport::InvalidatePartHeader(pool_->base());
  EXPECT_EQ(Restart().parts, 1u);
  EXPECT_TRUE(pool_->IsReadable(Gen(1, 1), At(0, 128)));
}

TEST_F(Lives, APartThatThePoolDoesNotHaveIsDropped) {
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_THAT(pool_->Put(Gen(1, i + 1), At(128 * i, 128), absl::StrCat(i)), IsOk());
  }
  transport::RestorePartHeader(Gen(1, 9), pool_->base());  // another generation's
  pool_->base()[128 + 40] ^= std::byte{1};                 // of another key
  const RestoreReport report = Restart();
  EXPECT_EQ(report.not_in_pool, 2u);
  EXPECT_EQ(report.parts, 1u);
  EXPECT_EQ(Restart().not_in_pool, 0u) << "dropped for good";
  EXPECT_EQ(index().stats(0).sealed_parts, 1u);
}

TEST_F(Lives, WhatIsImpossibleIsDropped) {
  ASSERT_THAT(pool_->Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  transport::SealRecord record = RecordFor(Gen(1, 2), At(256, 128), "b");
  const auto append = [&](auto change) {
    transport::SealRecord changed = record;
    change(changed);
    ASSERT_THAT(journal_->Append(changed), IsOk());
  };
  append([](auto& r) { r.extent.offset = TestPool::kSegmentBytes; });
  append([](auto& r) { r.extent.offset = 257; });
  append([](auto& r) { r.extent.length = TestPool::kSegmentBytes; });
  append([](auto& r) { r.extent.offset = ~uint64_t{63}; });
  append([](auto& r) { r.extent.segment = SegmentId{1}; });
  append([](auto& r) { r.generation = {}; });
  append([](auto& r) { r.generation = Gen(2, 1); });  // of a term that was never heard of
  append([](auto& r) { r.part_index = 5; });
  append([](auto& r) { r.object_bytes = 3; });
  append([](auto& r) { r.key = ""; });
  ASSERT_THAT(journal_->AppendTaken({}, At(256, 128)), IsOk());
  ASSERT_THAT(journal_->AppendTaken(Gen(1, 3), At(256, TestPool::kSegmentBytes)), IsOk());
  const RestoreReport report = Restart();
  EXPECT_EQ(report.malformed, 12u);
  EXPECT_EQ(report.parts, 1u);
}

TEST_F(Lives, OfPartsThatOverlapTheNewestStays) {
  ASSERT_THAT(pool_->Put(Gen(1, 5), At(0, 256), "new"), IsOk());
  // Entries of parts that were superseded and are in the journal again, headers and all.
  const auto revive = [&](Generation generation, const Extent& extent, const std::string& key) {
    const auto record = RecordFor(generation, extent, key);
    transport::EncodePartHeader(transport::HeaderOf(record), pool_->base() + extent.offset);
    ASSERT_THAT(journal_->Append(record), IsOk());
  };
  revive(Gen(1, 4), At(128, 256), "old");
  revive(Gen(1, 6), At(192, 64), "newest");
  revive(Gen(1, 1), At(512, 64), "apart");
  const RestoreReport report = Restart();
  EXPECT_EQ(report.superseded, 2u);
  EXPECT_EQ(report.parts, 2u);
  std::vector<std::string> keys;
  for (const auto& record : pool_->Inventory()) keys.push_back(record.key);
  EXPECT_THAT(keys, ElementsAre("newest", "apart"));
  EXPECT_EQ(Restart().superseded, 0u);
}

TEST_F(Lives, BytesOfALivingProcessStayTaken) {
  ASSERT_OK_AND_ASSIGN(auto written, ClaimMapped(Gen(1, 1), At(0, 128)));
  ASSERT_THAT(pool_->Put(Gen(1, 2), At(128, 128), "viewed"), IsOk());
  FakeViewer view;
  view.Hold(Gen(1, 2));
  index().AttachViewer(&view);
  const Generation freed[] = {Gen(1, 2)};
  index().Free(freed);
  index().DetachViewer(&view);
  // The claim's holder is a process that outlives the node: its end is not seen.
  const std::vector<std::byte> image = table_.Image();
  written.reset();
  table_.Restore(image);

  const RestoreReport report = Restart();
  EXPECT_EQ(report.taken_parts, 2u);
  EXPECT_THAT(report.taken, UnorderedElementsAre(Gen(1, 1), Gen(1, 2)));
  EXPECT_THAT(pool_->Inventory(), IsEmpty());
  FakeViewer writer;
  writer.Hold(Gen(1, 1));
  index().AttachViewer(&writer);
  EXPECT_THAT(pool_->Put(Gen(1, 3), At(64, 64), "c"),
              Fails(StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  index().DetachViewer(&writer);
  EXPECT_EQ(Restart().taken_parts, 2u) << "and over the next restart";
  EXPECT_THAT(pool_->Put(Gen(1, 3), At(0, 256), "c"), IsOk()) << "it has ended";
  EXPECT_EQ(Restart().taken_parts, 0u);
  EXPECT_TRUE(pool_->IsReadable(Gen(1, 3), At(0, 256)));
}

// Between the two stores of a mapped writer's seal.
TEST_F(Lives, APartStandsBesideTheEntryOfItsWriter) {
  ASSERT_THAT(pool_->Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  ASSERT_THAT(journal_->AppendTaken(Gen(1, 1), At(0, 128)), IsOk());
  const RestoreReport report = Restart();
  EXPECT_EQ(report.parts, 1u);
  EXPECT_THAT(report.taken, IsEmpty());
  EXPECT_EQ(report.superseded, 1u);
}

TEST_F(Lives, NothingIsClaimedBeforeAMasterHasSpoken) {
  ASSERT_THAT(pool_->Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  Restart(/*has_floor=*/false);
  const auto is_stale = Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration);
  EXPECT_THAT(pool_->Put(Gen(1, 7), At(128, 128), "b"), is_stale);
  EXPECT_TRUE(pool_->IsReadable(Gen(1, 1), At(0, 128))) << "reads wait for nobody";
  index().SetFloor(Gen(1, 7));
  EXPECT_THAT(pool_->Put(Gen(1, 7), At(128, 128), "b"), is_stale);
  EXPECT_THAT(pool_->Put(Gen(1, 8), At(128, 128), "b"), IsOk());
  // Said again, in a later session, it means nothing.
  index().SetFloor(Gen(1, 20));
  EXPECT_THAT(pool_->Put(Gen(1, 9), At(256, 128), "c"), IsOk());
}

// Random lives: after each restart the parts are those that stood, and no others.
TEST_F(Lives, ManyOfThem) {
  Random random(7);
  std::map<uint64_t, std::pair<Generation, Extent>> standing;
  uint32_t counter = 0;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t length = 64 + 64 * (random.Next() % 8) + random.Next() % 64;
    const Extent extent = At(64 * (random.Next() % 900), length);
    if (random.Next() % 50 == 0) {
      const RestoreReport report = Restart();
      ASSERT_EQ(report.parts, standing.size());
      ASSERT_EQ(report.damaged + report.malformed + report.not_in_pool + report.superseded, 0u);
      for (const auto& [offset, part] : standing) {
        ASSERT_TRUE(pool_->IsReadable(part.first, part.second));
      }
    } else if (!standing.empty() && random.Next() % 3 == 0) {
      const auto it = standing.begin();
      const Generation freed[] = {it->second.first};
      ASSERT_EQ(index().Free(freed), 1u);
      standing.erase(it);
    } else {
      const Generation generation = Gen(1, ++counter);
      const std::string key(1 + random.Next() % 300, 'k');
      ASSERT_THAT(pool_->Put(generation, extent, key), IsOk());
      std::erase_if(standing, [&](const auto& other) {
        const Extent& old = other.second.second;
        return old.offset < extent.end() && extent.offset < old.end();
      });
      standing[extent.offset] = {generation, extent};
    }
  }
}

}  // namespace
}  // namespace moonpool::storage_node
