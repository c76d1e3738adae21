// The small parts: allocator, index, key store, object table, obituaries, leases, namespaces.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/names.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "master/core/chunked_vector.h"
#include "master/core/extent_allocator.h"
#include "master/core/hash_index.h"
#include "master/core/key_store.h"
#include "master/core/lease_table.h"
#include "master/core/namespace_table.h"
#include "master/core/obituary.h"
#include "master/core/object_table.h"
#include "master/core/partial_table.h"

namespace moonpool::master {
namespace {

TEST(ExtentAllocator, FreedNeighboursBecomeOneRangeAgain) {
  ExtentAllocator allocator(1024);
  const uint64_t a = *allocator.Allocate(100);  // takes 128
  const uint64_t b = *allocator.Allocate(128);
  const uint64_t c = *allocator.Allocate(768);
  EXPECT_EQ(allocator.Allocate(1), std::nullopt);
  allocator.Free(a, 100);
  allocator.Free(c, 768);
  EXPECT_EQ(allocator.largest_free_bytes(), 768u);
  allocator.Free(b, 128);
  EXPECT_EQ(allocator.largest_free_bytes(), 1024u);
  EXPECT_EQ(allocator.free_ranges().size(), 1u);
}

TEST(ExtentAllocator, TheSmallestHoleThatFitsIsTaken) {
  ExtentAllocator allocator(10 * 64);
  ASSERT_TRUE(allocator.Reserve(4 * 64, 64));
  ASSERT_TRUE(allocator.Reserve(7 * 64, 64));
  EXPECT_EQ(allocator.Allocate(128), 5u * 64);
}

TEST(ExtentAllocator, ReserveTakesOnlyWhatIsFree) {
  ExtentAllocator allocator(1024);
  EXPECT_TRUE(allocator.Reserve(128, 64));
  EXPECT_FALSE(allocator.Reserve(64, 128)) << "overlaps";
  EXPECT_FALSE(allocator.Reserve(1, 64)) << "not on a unit";
  EXPECT_FALSE(allocator.Reserve(960, 128)) << "beyond the end";
  EXPECT_FALSE(allocator.Reserve(uint64_t{0} - 64, 128)) << "overflow";
  EXPECT_TRUE(allocator.Reserve(0, 128));
  EXPECT_TRUE(allocator.Reserve(192, 832));
  EXPECT_EQ(allocator.free_bytes(), 0u);
}

TEST(ExtentAllocator, ARoundOfRandomUseNeverOverlaps) {
  Random random(1);
  ExtentAllocator allocator(1 << 16);
  std::map<uint64_t, uint64_t> used;
  for (int i = 0; i < 20000; ++i) {
    if (random.OneIn(2)) {
      const uint64_t bytes = 1 + random.Below(3000);
      if (const auto offset = allocator.Allocate(bytes)) {
        EXPECT_TRUE(used.emplace(*offset, bytes).second);
      }
    } else if (!used.empty()) {
      auto victim = used.lower_bound(random.Below(1 << 16));
      if (victim == used.end()) victim = used.begin();
      allocator.Free(victim->first, victim->second);
      used.erase(victim);
    }
  }
  uint64_t end = 0;
  uint64_t sum = 0;
  for (const auto& [offset, bytes] : used) {
    EXPECT_GE(offset, end);
    end = offset + ExtentAllocator::Rounded(bytes);
    sum += ExtentAllocator::Rounded(bytes);
  }
  EXPECT_EQ(allocator.used_bytes(), sum);
}

TEST(ExtentAllocator, SixtyFourKiBObjectsCostLessThanOnePercent) {
  constexpr uint64_t kCount = 1000;
  ExtentAllocator allocator(kCount * 65536 * 101 / 100);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(allocator.Allocate(65536 + kPartHeaderBytes).has_value()) << i;
  }
}

TEST(HashIndex, FindsWhatWasInsertedAndNotErased) {
  HashIndex index;
  Random random(2);
  std::vector<uint64_t> hashes;
  for (uint32_t i = 0; i < 100000; ++i) {
    // Many equal tags in few tables, so that probing and gaps are put to the test.
    hashes.push_back((random.Below(4) << 54) | (random.Below(50000) * 85'899));
    index.Insert(hashes.back(), i);
  }
  std::set<uint32_t> erased;
  for (int i = 0; i < 50000; ++i) {
    const auto value = static_cast<uint32_t>(random.Below(hashes.size()));
    EXPECT_EQ(index.Erase(hashes[value], value), erased.insert(value).second);
  }
  EXPECT_EQ(index.size(), hashes.size() - erased.size());
  for (uint32_t i = 0; i < hashes.size(); ++i) {
    const uint32_t found = index.Find(hashes[i], [&](uint32_t value) { return value == i; });
    EXPECT_EQ(found, erased.contains(i) ? HashIndex::kNone : i);
  }
}

TEST(KeyStore, KeysKeepTheirBytesWhileBlocksAreUsedAgain) {
  KeyStore store;
  Random random(3);
  std::vector<std::pair<KeyStore::Block, std::string>> keys;
  for (int i = 0; i < 30000; ++i) {
    if (random.OneIn(3) && !keys.empty()) {
      std::swap(keys[random.Below(keys.size())], keys.back());
      store.Remove(keys.back().first, keys.back().second.size());
      keys.pop_back();
      continue;
    }
    std::string key(1 + random.Below(kMaxKeyBytes), static_cast<char>('a' + random.Below(26)));
    const KeyStore::Block block = store.Add(key);
    keys.emplace_back(block, std::move(key));
  }
  for (const auto& [block, key] : keys) ASSERT_EQ(store.Get(block, key.size()), key);
}

TEST(ChunkedVector, GrowsAndShrinksOverChunkBorders) {
  ChunkedVector<int, 4> numbers;
  for (int i = 0; i < 100; ++i) numbers.push_back(i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
  for (int i = 99; i >= 50; --i) {
    EXPECT_EQ(numbers.back(), i);
    numbers.pop_back();
  }
  numbers.push_back(7);
  EXPECT_EQ(numbers.size(), 51u);
  EXPECT_EQ(numbers.back(), 7);
}

TEST(ObjectTable, TheSameKeyInTwoNamespacesIsTwoObjects) {
  ObjectTable table(100);
  const SlotIndex a = table.Add(KeyHash(0, "key"), 0, "key");
  const SlotIndex b = table.Add(KeyHash(1, "key"), 1, "key");
  EXPECT_EQ(table.Find(0, "key"), a);
  EXPECT_EQ(table.Find(1, "key"), b);
  table.Remove(a);
  EXPECT_EQ(table.Find(0, "key"), kNoSlot);
  EXPECT_EQ(table.Find(1, "key"), b);
  EXPECT_EQ(table.Add(KeyHash(0, "other"), 0, "other"), a) << "slots are used again";
}

TEST(ObjectTable, AFullTableSaysSo) {
  ObjectTable table(1);
  const SlotIndex a = table.Add(KeyHash(0, "a"), 0, "a");
  EXPECT_EQ(table.Add(KeyHash(0, "b"), 0, "b"), kNoSlot);
  table.Remove(a);
  EXPECT_NE(table.Add(KeyHash(0, "b"), 0, "b"), kNoSlot);
}

TEST(ObjectTable, ManyPartsStandAsideAndOneStandsInTheSlot) {
  ObjectTable table(10);
  const SlotIndex slot = table.Add(KeyHash(0, "a"), 0, "a");
  table[slot].size_bytes = 100;
  table.SetParts(slot, {StoredPart{.length = 50 + kPartHeaderBytes, .position = 1, .node = 1},
                        StoredPart{.length = 50 + kPartHeaderBytes, .position = 2, .node = 1}});
  table.MovePosition(slot, 1, 2, 9);
  EXPECT_EQ(table.PartsOf(slot)[1].position, 9u);
  table.SetParts(slot, {StoredPart{.offset = 64, .length = 100 + kPartHeaderBytes, .node = 3}});
  ASSERT_EQ(table.PartsOf(slot).size(), 1u);
  EXPECT_EQ(table.PartsOf(slot)[0].offset, 64u);
  EXPECT_EQ(table[slot].node, 3);
  table.SetParts(slot, {});
  EXPECT_TRUE(table.PartsOf(slot).empty());
}

TEST(Obituaries, TheOldestMakesRoomForTheNewest) {
  Obituaries obituaries(3);
  for (uint64_t hash = 1; hash <= 4; ++hash) obituaries.Add(Obituary{.key_hash = hash << 40});
  EXPECT_FALSE(obituaries.Find(uint64_t{1} << 40).has_value());
  EXPECT_TRUE(obituaries.Find(uint64_t{2} << 40).has_value());
  EXPECT_TRUE(obituaries.Find(uint64_t{4} << 40).has_value());
}

TEST(Obituaries, AKeyHasOneAndItIsTheLast) {
  Obituaries obituaries(3);
  obituaries.Add(Obituary{.key_hash = 5, .cause = DeathCause::kEvicted});
  obituaries.Add(Obituary{.key_hash = 5, .cause = DeathCause::kRemoved});
  EXPECT_EQ(obituaries.Find(5)->cause, DeathCause::kRemoved);
}

TEST(LeaseTable, ANamespaceHoldsNoMoreThanItsShare) {
  NamespaceTable namespaces(4);
  LeaseTable leases(namespaces, 100, 0.5);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(leases.Extend(1, 0, 300, now + absl::Seconds(1), 1000));
  EXPECT_FALSE(leases.Extend(2, 0, 300, now + absl::Seconds(1), 1000));
  EXPECT_TRUE(leases.Extend(1, 0, 300, now + absl::Seconds(2), 1000)) << "the same object again";
  EXPECT_EQ(namespaces[0].leased_bytes, 300u);
  EXPECT_EQ(leases.Due(now + absl::Seconds(1)), std::nullopt) << "the longest counts";
  EXPECT_EQ(leases.Due(now + absl::Seconds(2)), 1u);
  leases.End(1);
  EXPECT_EQ(namespaces[0].leased_bytes, 0u);
  EXPECT_TRUE(leases.Extend(2, 0, 300, now + absl::Seconds(3), 1000));
}

TEST(LeaseTable, TheNumberOfLeasesIsBounded) {
  NamespaceTable namespaces(4);
  LeaseTable leases(namespaces, 1, 1.0);
  EXPECT_TRUE(leases.Extend(1, 0, 1, absl::UnixEpoch(), 1000));
  EXPECT_FALSE(leases.Extend(2, 0, 1, absl::UnixEpoch(), 1000));
}

TEST(NamespaceTable, TheFirstFingerprintHolds) {
  NamespaceTable table(4);
  EXPECT_THAT(table.Open("a", ""),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
  EXPECT_EQ(*table.Open("a", "f1"), "f1");
  EXPECT_EQ(*table.Open("a", ""), "f1");
  const auto other = table.Open("a", "f2");
  EXPECT_THAT(other,
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  EXPECT_THAT(std::string(other.status().message()),
              testing::AllOf(testing::HasSubstr("f1"), testing::HasSubstr("f2")));
}

TEST(NamespaceTable, DefaultIsThereAndHasNoFingerprint) {
  NamespaceTable table(4);
  EXPECT_EQ(*table.Open("default", ""), "");
  EXPECT_EQ(*table.Resolve(""), *table.Resolve("default"));
  EXPECT_THAT(table.Open("default", "f"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
}

TEST(NamespaceTable, OneThatANodeBroughtTakesItsFirstFingerprint) {
  NamespaceTable table(4);
  ASSERT_TRUE(table.FindOrAdd("a").has_value());
  EXPECT_EQ(*table.Open("a", "f1"), "f1");
  EXPECT_FALSE(table.Open("a", "f2").ok());
}

TEST(NamespaceTable, APartBringsTheFingerprintOfOneThatNobodyOpened) {
  NamespaceTable table(4);
  const std::string part = JoinPartNamespace({"a", "f1"});
  const auto home = table.FindOrAdd(part);
  ASSERT_TRUE(home.has_value());
  EXPECT_TRUE(home->is_of_its_layout);
  EXPECT_THAT(table.Open("a", "f2"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  EXPECT_EQ(*table.Open("a", "f1"), "f1");
  EXPECT_EQ(*table.Open("a", ""), "f1");
  EXPECT_EQ(table.FindOrAdd(part)->id, home->id);
}

TEST(NamespaceTable, PartsOfOtherLayoutsAreToldApart) {
  NamespaceTable table(4);
  ASSERT_THAT(table.Open("a", "f1"), IsOk());
  EXPECT_TRUE(table.FindOrAdd(JoinPartNamespace({"a", "f1"}))->is_of_its_layout);
  EXPECT_FALSE(table.FindOrAdd(JoinPartNamespace({"a", "f2"}))->is_of_its_layout);
  EXPECT_FALSE(table.FindOrAdd("a")->is_of_its_layout);
  EXPECT_TRUE(table.FindOrAdd("default")->is_of_its_layout);
  EXPECT_TRUE(table.FindOrAdd("")->is_of_its_layout);
  EXPECT_FALSE(table.FindOrAdd(JoinPartNamespace({"default", "f"}))->is_of_its_layout);
  EXPECT_EQ(table.FindOrAdd("")->id, table.FindOrAdd("default")->id);
  EXPECT_FALSE(table.FindOrAdd("a\x1f").has_value());
}

TEST(NamespaceTable, WhatIsStoredWithoutAFingerprintGetsNone) {
  NamespaceTable table(4);
  const NamespaceId id = table.FindOrAdd("a")->id;
  table[id].objects = 1;
  EXPECT_THAT(table.Open("a", "f1"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  EXPECT_EQ(*table.Open("a", ""), "");
  table[id].objects = 0;
  EXPECT_EQ(*table.Open("a", "f1"), "f1");
}

TEST(NamespaceTable, NamesAndTheirNumberAreBounded) {
  NamespaceTable table(2);
  EXPECT_THAT(table.Open("no spaces", "f"),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(table.Open("a", std::string(254, 'f')),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(table.Open(std::string(256, 'x'), "f"),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_TRUE(table.Open("a", "f").ok());
  EXPECT_THAT(table.Open("b", "f"),
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
}

PartialPart HalfAt(uint32_t node, uint64_t offset, uint32_t part_index, uint8_t replica = 0) {
  return {.node = NodeId{node},
          .part = {.offset = offset, .length = 5 + kPartHeaderBytes, .replica = replica},
          .part_index = part_index,
          .part_count = 2};
}

TEST(PartialTable, AReplicaIsPutTogetherOfPartsWithItsNumber) {
  PartialTable table;
  const PartialTable::Id id{1, Generation{1}};
  const PartialObject& object = table.Add(id, {.size_bytes = 10, .parts = {HalfAt(1, 0, 0)}});
  table.AddPart(id, HalfAt(2, 0, 1, 1));
  const auto all = [](const PartialPart&) { return true; };
  EXPECT_TRUE(object.CompleteReplica(0, 2, all).empty());
  table.AddPart(id, HalfAt(3, 0, 0));
  EXPECT_TRUE(object.CompleteReplica(0, 2, all).empty()) << "the first half, twice";
  table.AddPart(id, HalfAt(3, 128, 1));
  EXPECT_EQ(object.CompleteReplica(0, 2, all).size(), 2u);
  EXPECT_TRUE(object.CompleteReplica(0, 3, all).empty());
}

TEST(PartialTable, PartsAreFoundByTheirPlaceAsLongAsTheyAreThere) {
  PartialTable table;
  const PartialTable::Id id{1, Generation{1}};
  table.Add(id, {.size_bytes = 10, .parts = {HalfAt(1, 0, 0)}});
  table.AddPart(id, HalfAt(2, 64, 1));
  EXPECT_EQ(table.At(NodeId{1}, 0, 0), id);
  EXPECT_EQ(table.At(NodeId{1}, 0, 64), std::nullopt);
  EXPECT_EQ(table.At(NodeId{2}, 0, 64), id);
  EXPECT_EQ(table.EraseParts(id, [](const PartialPart& part) { return part.node == NodeId{2}; }),
            1u);
  EXPECT_EQ(table.At(NodeId{2}, 0, 64), std::nullopt);
  table.Take(id);
  EXPECT_EQ(table.At(NodeId{1}, 0, 0), std::nullopt);
}

}  // namespace
}  // namespace moonpool::master
