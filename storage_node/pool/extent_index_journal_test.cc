// What the index has written down, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/testing/test_pool.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using transport::SealRecord;

// Refuses on demand, and remembers.
class FakeJournal final : public SealJournal {
 public:
  absl::StatusOr<JournalEntry> Append(const SealRecord& record) override {
    return Add("seal " + record.key);
  }
  absl::StatusOr<JournalEntry> AppendTaken(Generation generation, const Extent&) override {
    return Add("taken " + ToString(generation));
  }
  void Demote(JournalEntry entry) override { Note("demote ", entry); }
  void Erase(JournalEntry entry) override { Note("erase ", entry); }
  void NoteTerm(Term) override {}

  bool refuses = false;
  std::vector<std::string> entries;
  std::function<void()> on_erase = [] {};

 private:
  absl::StatusOr<JournalEntry> Add(std::string text) {
    if (refuses) return absl::ResourceExhaustedError("journal is full");
    entries.push_back(std::move(text));
    return JournalEntry{static_cast<uint32_t>(entries.size())};
  }
  void Note(const char* what, JournalEntry entry) {
    if (entry == kNoEntry) return;
    entries.push_back(what + std::to_string(entry.value));
    on_erase();
  }
};

TEST(ExtentIndex, ASealStandsOnlyOnceItIsWrittenDown) {
  FakeJournal journal;
  TestPool pool(1, {}, &journal);
  journal.refuses = true;
  EXPECT_THAT(pool.Put(Gen(1, 1), At(0, 128), "a"), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_FALSE(pool.IsReadable(Gen(1, 1), At(0, 128)));
  EXPECT_EQ(transport::LoadPartGeneration(pool.base()), Generation{});
  journal.refuses = false;
  EXPECT_THAT(pool.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  const Generation freed[] = {Gen(1, 1), Gen(1, 8)};
  pool.index().Free(freed);
  EXPECT_THAT(journal.entries, ElementsAre("seal a", "erase 1"));
}

TEST(ExtentIndex, TheJournalHasLostAPartBeforeTheNextOwnerMayWrite) {
  FakeJournal journal;
  TestPool pool(1, {}, &journal);
  ASSERT_THAT(pool.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  ASSERT_THAT(pool.Put(Gen(1, 2), At(128, 128), "b"), IsOk());
  bool is_header_gone = false;
  journal.on_erase = [&] {
    is_header_gone = transport::LoadPartGeneration(pool.base()) == Generation{};
  };
  ASSERT_OK_AND_ASSIGN(const auto claim, pool.Claim(Gen(1, 3), At(0, 256)));
  EXPECT_THAT(journal.entries, ElementsAre("seal a", "seal b", "erase 1", "erase 2"));
  EXPECT_TRUE(is_header_gone);
}

TEST(ExtentIndex, BytesThatAProcessWritesStayWrittenDownWhenTheNodeStops) {
  FakeJournal journal;
  TestPool pool(1, {}, &journal);
  const auto claim_mapped = [&](uint32_t counter, uint64_t offset) {
    return pool.index().Claim(Gen(1, counter), At(offset, 128), transport::WriterKind::kMapped);
  };
  ASSERT_OK_AND_ASSIGN(auto writing, claim_mapped(1, 0));
  ASSERT_OK_AND_ASSIGN(auto given_up, claim_mapped(2, 128));
  const Generation freed[] = {Gen(1, 2)};
  pool.index().Free(freed);
  ASSERT_OK_AND_ASSIGN(auto done, claim_mapped(3, 256));
  done->SetWritten();
  pool.index().WillStop();
  EXPECT_THAT(pool.index().Seal(RecordFor(Gen(1, 3), At(256, 128), "a")), IsOk());
  writing.reset();
  given_up.reset();
  EXPECT_THAT(journal.entries,
              ElementsAre("taken 1.1", "taken 1.2", "taken 1.3", "seal a", "erase 3"))
      << "only what is sealed is written";
  EXPECT_THAT(pool.Claim(Gen(1, 4), At(0, 128)),
              Fails(StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_THAT(pool.Claim(Gen(1, 4), At(512, 128)),
              Fails(StatusCode::kUnavailable, ErrorReason::kShuttingDown));
}

TEST(ExtentIndex, BytesThatAProcessWritesAreWrittenDownUntilItIsDone) {
  FakeJournal journal;
  TestPool pool(1, {}, &journal);
  const auto claim_mapped = [&](uint32_t counter) {
    return pool.index().Claim(Gen(1, counter), At(0, 128), transport::WriterKind::kMapped);
  };
  ASSERT_OK_AND_ASSIGN(auto claim, claim_mapped(1));
  claim.reset();
  EXPECT_THAT(journal.entries, ElementsAre("taken 1.1", "erase 1"));

  ASSERT_OK_AND_ASSIGN(claim, claim_mapped(2));
  claim->SetWritten();
  ASSERT_THAT(pool.index().Seal(RecordFor(Gen(1, 2), At(0, 128), "a")), IsOk());
  claim.reset();
  EXPECT_THAT(journal.entries,
              ElementsAre("taken 1.1", "erase 1", "taken 1.2", "seal a", "erase 3"));

  // Freed while somebody views them.
  FakeViewer viewer;
  viewer.Hold(Gen(1, 2));
  pool.index().AttachViewer(&viewer);
  const Generation freed[] = {Gen(1, 2)};
  pool.index().Free(freed);
  EXPECT_EQ(journal.entries.back(), "demote 4");
  pool.index().DetachViewer(&viewer);
  ASSERT_THAT(pool.Put(Gen(1, 3), At(0, 128), "b"), IsOk());
  EXPECT_THAT(journal.entries, ElementsAre("taken 1.1", "erase 1", "taken 1.2", "seal a", "erase 3",
                                           "demote 4", "erase 4", "seal b"));

  journal.refuses = true;
  EXPECT_THAT(claim_mapped(4), StatusIs(StatusCode::kResourceExhausted));
  journal.refuses = false;
  EXPECT_THAT(pool.Put(Gen(1, 4), At(0, 128), "c"), IsOk());
}

}  // namespace
}  // namespace moonpool::storage_node
