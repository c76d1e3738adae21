#include "storage_node/journal/record_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/testing/status_matchers.h"
#include "storage_node/journal/testing/test_table.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::SealRecord;

using Image = std::vector<std::byte>;
constexpr size_t kWord = sizeof(uint64_t);

SealRecord Record(uint32_t counter, size_t key_bytes = 40, size_t parent_bytes = 0) {
  return SealRecord{.generation = Generation::Of(Term{7}, counter),
                    .name_space = "default",
                    .key = std::string(key_bytes, static_cast<char>('a' + counter % 26)),
                    .parent = std::string(parent_bytes, 'p'),
                    .extent = {SegmentId{0}, uint64_t{4096} * counter, 1000 + counter},
                    .object_bytes = 936 + counter,
                    .part_index = 3,
                    .part_count = 9,
                    .replica_index = kMaxReplicas - 1,
                    .replicas = kMaxReplicas,
                    .payload_checksum = uint64_t{0x1234567890abcdef} * counter};
}

// What is found when the table is opened again, by generation.
struct Found {
  std::map<Generation, SealRecord> sealed;
  std::set<Generation> taken;
  uint64_t damaged = 0;
  bool operator==(const Found&) const = default;
};

Found Look(TestTable& table) {
  Found found;
  auto opened = table.Open();
  EXPECT_THAT(opened, IsOk());
  if (!opened.ok()) return found;
  for (const JournalEntry entry : opened->TakeFound()) {
    const std::optional<TableRecord> at = opened->Read(entry);
    EXPECT_TRUE(at.has_value());
    if (at->is_sealed) {
      found.sealed[at->record.generation] = at->record;
    } else {
      found.taken.insert(at->record.generation);
    }
  }
  found.damaged = opened->damaged();
  return found;
}

Found LookAt(TestTable& table, const Image& image) {
  table.Restore(image);
  return Look(table);
}

void AddTo(Found& found, const SealRecord& record) { found.sealed[record.generation] = record; }

TEST(RecordTable, OneThatCannotGrowSaysHowManyFit) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable records, table.Create());
  EXPECT_THAT(records.Room().why, IsOk());
  table.is_full = true;
  EXPECT_THAT(records.Room().why, IsOk()) << "it has not tried";
  std::vector<JournalEntry> entries;
  absl::StatusOr<JournalEntry> entry;
  while ((entry = records.Append(Record(1))).ok()) entries.push_back(*entry);
  for (int i = 0; i < 2; ++i) {
    const JournalRoom room = records.Room();
    EXPECT_EQ(room.parts_max, entries.size());
    EXPECT_EQ(room.why, entry.status());
    // Nothing that goes makes it less.
    if (i == 0) records.Erase(entries.front());
  }
  EXPECT_THAT(records.Append(Record(2)), IsOk());
  EXPECT_THAT(records.Append(Record(3)), StatusIs(StatusCode::kResourceExhausted));

  ASSERT_OK_AND_ASSIGN(RecordTable next, table.Open());
  EXPECT_FALSE(next.Append(Record(4)).ok());
  EXPECT_EQ(next.Room().parts_max, entries.size());
  table.is_full = false;
  EXPECT_THAT(next.Room().why, IsOk());
  EXPECT_THAT(next.Append(Record(4)), IsOk());
}

TEST(RecordTable, WhatWasAppendedIsFoundAgain) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable first, table.Create(Incarnation{42}));
  Found expected;
  uint32_t counter = 0;
  for (const size_t key_bytes : {1, 48, 49, 50, 56, 57, 105, 500, 1024}) {
    for (const size_t parent_bytes : {0, 1, 1024}) {
      const SealRecord record = Record(++counter, key_bytes, parent_bytes);
      EXPECT_THAT(first.Append(record), IsOk());
      AddTo(expected, record);
    }
  }
  SealRecord nameless = Record(++counter);
  nameless.name_space = "";
  SealRecord longest = Record(++counter, kMaxKeyBytes, kMaxKeyBytes);
  longest.name_space = std::string(kMaxNamespaceBytes, 'n');
  for (const SealRecord& record : {nameless, longest}) {
    EXPECT_THAT(first.Append(record), IsOk());
    AddTo(expected, record);
  }
  EXPECT_THAT(first.AppendTaken(Generation{5}, {SegmentId{0}, 64, 128}), IsOk());
  expected.taken.insert(Generation{5});
  EXPECT_EQ(Look(table), expected);

  ASSERT_OK_AND_ASSIGN(RecordTable next, table.Open());
  EXPECT_EQ(next.incarnation(), Incarnation{42});
  EXPECT_EQ(next.used_cells(), first.used_cells());
}

TEST(RecordTable, ErasedAndDemotedEntriesLeaveTheirCellsToOthers) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  std::vector<JournalEntry> entries;
  for (uint32_t i = 1; i <= 20; ++i) {
    ASSERT_OK_AND_ASSIGN(entries.emplace_back(), live.Append(Record(i, 200)));
  }
  const uint64_t used = live.used_cells();
  const size_t ready = table.ready_bytes();
  for (uint32_t round = 0; round < 100; ++round) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (round % 2 == 0) live.Demote(entries[i]);
      live.Erase(entries[i]);
      const uint32_t counter = 100 * (round + 1) + static_cast<uint32_t>(i);
      ASSERT_OK_AND_ASSIGN(entries[i], live.Append(Record(counter, 200)));
      ASSERT_EQ(live.used_cells(), used);
    }
  }
  EXPECT_EQ(table.ready_bytes(), ready);
  const Found found = Look(table);
  EXPECT_EQ(found.sealed.size(), 20u);
  EXPECT_EQ(found.sealed.begin()->second, Record(10000, 200));
  EXPECT_EQ(found.damaged, 0u);
  // The next life uses the holes of this one.
  live.Erase(entries[3]);
  ASSERT_OK_AND_ASSIGN(RecordTable next, table.Open());
  ASSERT_THAT(next.Append(Record(7, 200)), IsOk());
  EXPECT_EQ(next.used_cells(), used);
  EXPECT_EQ(table.ready_bytes(), ready);
}

TEST(RecordTable, WithoutRoomNothingChanges) {
  TestTable table(/*cells=*/64, /*cells_per_step=*/8);
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  uint32_t counter = 0;
  while (live.Append(Record(++counter, 100)).ok()) {
  }
  EXPECT_EQ(counter, 1 + 62 / 3u);
  const auto refused = live.Append(Record(counter, 100));
  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(Look(table).sealed.size(), counter - 1);
  EXPECT_EQ(Look(table).damaged, 0u);

  // The file system is full, and later has room.
  TestTable other(/*cells=*/64, /*cells_per_step=*/8);
  ASSERT_OK_AND_ASSIGN(RecordTable grows, other.Create());
  ASSERT_THAT(grows.Append(Record(1)), IsOk());
  other.is_full = true;
  uint32_t fitted = 1;
  while (grows.Append(Record(fitted + 1)).ok()) ++fitted;
  EXPECT_EQ(Look(other).sealed.size(), fitted);
  other.is_full = false;
  EXPECT_THAT(grows.Append(Record(fitted + 1)), IsOk());
  EXPECT_EQ(Look(other).sealed.size(), fitted + 1);
}

TEST(RecordTable, AHeaderThatDoesNotFitIsNoTable) {
  TestTable table;
  EXPECT_THAT(table.Open(), StatusIs(StatusCode::kFailedPrecondition));
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  live.NoteTerm(Term{7});
  ASSERT_THAT(live.Append(Record(1)), IsOk());
  for (size_t at = 0; at < kTermWordAt + kWord; ++at) {
    if (at == sizeof(TableHeader)) at = kTermWordAt;  // nothing stands between
    for (int bit = 0; bit < 8; ++bit) {
      table.data()[at] ^= std::byte(1 << bit);
      EXPECT_THAT(table.Open(), StatusIs(StatusCode::kFailedPrecondition)) << at;
      table.data()[at] ^= std::byte(1 << bit);
    }
  }
  EXPECT_THAT(table.Open(), IsOk());
  table.identity.boot += 1;
  EXPECT_THAT(table.Open().status().message(), HasSubstr("another boot"));
  table.identity.boot -= 1;
  table.identity.segments += 1;
  EXPECT_THAT(table.Open().status().message(), HasSubstr("another size"));
  table.identity.segments -= 1;
  table.identity.file += 1;
  EXPECT_THAT(table.Open().status().message(), HasSubstr("another file"));
  table.identity.file -= 1;
  TableMemory cut = table.memory();
  cut.ready_bytes = 64;
  EXPECT_THAT(RecordTable::Open(cut, table.identity).status().message(), HasSubstr("too short"));
}

TEST(RecordTable, ANewTableHasNothingOfTheOneBefore) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create(Incarnation{1}));
  live.NoteTerm(Term{9});
  for (uint32_t i = 1; i < 9; ++i) ASSERT_THAT(live.Append(Record(i)), IsOk());
  ASSERT_THAT(table.Create(Incarnation{2}), IsOk());
  EXPECT_EQ(Look(table), Found{});
  ASSERT_OK_AND_ASSIGN(RecordTable next, table.Open());
  EXPECT_EQ(next.incarnation(), Incarnation{2});
  EXPECT_EQ(next.newest_term(), Term{});
}

TEST(RecordTable, TheNewestTermNeverFalls) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  live.NoteTerm(Term{9});
  live.NoteTerm(Term{8});
  EXPECT_EQ(table.Open()->newest_term(), Term{9});
}

// The words in which two images differ, by place.
std::vector<size_t> Difference(Image& before, const Image& after) {
  before.resize(after.size());  // what was made ready is zero
  std::vector<size_t> words;
  for (size_t at = 0; at < after.size(); at += kWord) {
    if (!std::equal(&before[at], &before[at] + kWord, &after[at])) words.push_back(at);
  }
  return words;
}
void Copy(Image& to, const Image& from, size_t word) { std::copy_n(&from[word], kWord, &to[word]); }

class Cuts : public ::testing::Test {
 protected:
  // An append, cut at every point: before the head's first word, in whatever order the other stores
  // come, there is what was; and with that word, and another missing, there is what was and one
  // damaged record. So a process that dies between any two stores leaves all of the record or none.
  void ExpectAllOrNothing(const SealRecord& record) {
    Image before = table_.Image();
    const Found was = LookAt(table_, before);
    ASSERT_OK_AND_ASSIGN(RecordTable live, table_.Open());
    ASSERT_OK_AND_ASSIGN(const JournalEntry entry, live.Append(record));
    const Image after = table_.Image();
    std::vector<size_t> words = Difference(before, after);
    const size_t head = entry.value * kCellBytes;
    ASSERT_EQ(std::erase(words, head), 1u);

    for (const bool is_reversed : {false, true}) {
      if (is_reversed) std::reverse(words.begin(), words.end());
      Image cut = before;
      EXPECT_EQ(LookAt(table_, cut), was);
      for (const size_t word : words) {
        Copy(cut, after, word);
        EXPECT_EQ(LookAt(table_, cut), was) << "cut behind the store to " << word;
      }
    }
    Found is = was;
    AddTo(is, record);
    EXPECT_EQ(LookAt(table_, after), is);
    Found torn_one = was;
    torn_one.damaged = 1;
    int whole = 0;
    for (const size_t missing : words) {
      Image torn = after;
      Copy(torn, before, missing);
      const Found found = LookAt(table_, torn);
      whole += found == is ? 1 : 0;
      EXPECT_TRUE(found == torn_one || found == is) << missing;
    }
    EXPECT_LE(whole, 1) << "only where the last text cell leads does not matter";
  }

  TestTable table_;
};

TEST_F(Cuts, OfAnAppendInCellsThatWereNeverUsed) {
  ASSERT_OK_AND_ASSIGN(RecordTable live, table_.Create());
  ASSERT_THAT(live.Append(Record(1, 100, 30)), IsOk());
  ExpectAllOrNothing(Record(2, 300, 64));
}

TEST_F(Cuts, OfAnAppendInCellsThatOthersHad) {
  ASSERT_OK_AND_ASSIGN(RecordTable live, table_.Create());
  ASSERT_THAT(live.Append(Record(1, 100, 30)), IsOk());
  std::vector<JournalEntry> gone;
  for (uint32_t i = 2; i < 6; ++i) {
    ASSERT_OK_AND_ASSIGN(gone.emplace_back(), live.Append(Record(i, 300, 99)));
  }
  live.Demote(gone[1]);
  for (const JournalEntry entry : gone) live.Erase(entry);
  ExpectAllOrNothing(Record(6, 1000, 64));
}

TEST_F(Cuts, ErasingAndDemotingAreOneStore) {
  ASSERT_OK_AND_ASSIGN(RecordTable live, table_.Create());
  ASSERT_THAT(live.Append(Record(1, 100)), IsOk());
  ASSERT_OK_AND_ASSIGN(const JournalEntry entry, live.Append(Record(2, 100)));
  Image before = table_.Image();
  live.Demote(entry);
  const Image demoted = table_.Image();
  EXPECT_EQ(Difference(before, demoted), std::vector<size_t>{entry.value * kCellBytes});
  Found expected;
  AddTo(expected, Record(1, 100));
  expected.taken.insert(Record(2).generation);
  EXPECT_EQ(Look(table_), expected);
  live.Erase(entry);
  before = demoted;
  EXPECT_EQ(Difference(before, table_.Image()), std::vector<size_t>{entry.value * kCellBytes});
  expected.taken.clear();
  EXPECT_EQ(Look(table_), expected);
}

// Whatever bit of a record turns: it is gone or as it was, and no other record suffers.
TEST(RecordTable, DamageCostsTheRecordThatHasIt) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  ASSERT_THAT(live.Append(Record(1, 100)), IsOk());
  const size_t begin = (kHeaderCells + live.used_cells()) * kCellBytes;
  ASSERT_THAT(live.Append(Record(2, 100)), IsOk());
  const size_t end = (kHeaderCells + live.used_cells()) * kCellBytes;
  ASSERT_THAT(live.Append(Record(3, 100)), IsOk());
  const Found whole = Look(table);
  Found without = whole;
  without.sealed.erase(Record(2).generation);
  const Image image = table.Image();
  int gone = 0;
  for (size_t at = begin; at < end; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Image spoilt = image;
      spoilt[at] ^= std::byte(1 << bit);
      Found found = LookAt(table, spoilt);
      EXPECT_LE(found.damaged, 2u) << "a text cell may have become half a head";
      found.damaged = 0;
      const bool is_gone = found == without;
      gone += is_gone ? 1 : 0;
      EXPECT_TRUE(is_gone || found == whole) << at;
    }
  }
  // The rest is what the last text cell does not use, and bytes that lead nowhere.
  EXPECT_GT(gone, static_cast<int>((kWord + sizeof(HeadBody) + 107) * 8 - 24));
}

TEST(RecordTable, AKeyCannotPassForARecord) {
  TestTable donor;
  ASSERT_OK_AND_ASSIGN(RecordTable other, donor.Create());
  ASSERT_OK_AND_ASSIGN(const JournalEntry taken,
                       other.AppendTaken(Generation{99}, {SegmentId{0}, 0, 4096}));
  const std::string head(reinterpret_cast<char*>(donor.data()) + taken.value * kCellBytes,
                         kCellBytes);
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  Found expected;
  // With each shift, so that one of them lies as a cell does.
  for (uint32_t shift = 0; shift < kCellBytes; ++shift) {
    SealRecord record = Record(shift + 1);
    record.key = std::string(shift, 'x');
    while (record.key.size() + head.size() < kMaxKeyBytes) record.key += head;
    ASSERT_THAT(live.Append(record), IsOk());
    AddTo(expected, record);
  }
  EXPECT_EQ(Look(table), expected);
}

TEST(RecordTable, CellsBelongToOneRecord) {
  TestTable table;
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  ASSERT_OK_AND_ASSIGN(const JournalEntry entry, live.Append(Record(1, 100)));
  // A copy of the head, with the same text.
  const size_t copy = kHeaderCells + live.used_cells();
  std::memcpy(table.data() + copy * kCellBytes, table.data() + entry.value * kCellBytes,
              kCellBytes);
  ASSERT_OK_AND_ASSIGN(RecordTable next, table.Open());
  EXPECT_EQ(next.TakeFound(), std::vector<JournalEntry>{entry});
  EXPECT_EQ(next.damaged(), 1u);
  // And text that leads back to itself.
  SealRecord repeating = Record(2, 49 + 2 * kTextBytesPerCell, 0);
  repeating.key = std::string(repeating.key.size(), 'z');
  ASSERT_OK_AND_ASSIGN(const JournalEntry ring, next.Append(repeating));
  HeadBody head;
  std::memcpy(&head, table.data() + ring.value * kCellBytes + kWord, sizeof(head));
  std::byte* second = table.data() + head.first_text * kCellBytes;
  uint32_t next_cell = 0;
  std::memcpy(&next_cell, second + 4, sizeof(next_cell));
  second = table.data() + next_cell * kCellBytes;
  std::memcpy(second + 4, &next_cell, sizeof(next_cell));
  EXPECT_EQ(Look(table).damaged, 1u);
  EXPECT_EQ(Look(table).sealed.size(), 1u);
}

TEST(RecordTable, TheBoundHoldsAllPartsWithTheLongestNames) {
  constexpr uint64_t kParts = 5;
  TestTable table(TableBytesMax(kParts) / kCellBytes);
  ASSERT_OK_AND_ASSIGN(RecordTable live, table.Create());
  for (uint32_t i = 0; i <= kParts; ++i) {
    SealRecord record = Record(i + 1, kMaxKeyBytes, kMaxKeyBytes);
    record.name_space = std::string(kMaxNamespaceBytes, 'n');
    ASSERT_THAT(live.Append(record), IsOk());
  }
  EXPECT_THAT(live.AppendTaken(Generation{1}, {}), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(TableBytesMax(uint64_t{1} << 40), TableBytesMax(uint64_t{1} << 41));
}

}  // namespace
}  // namespace moonpool::storage_node
