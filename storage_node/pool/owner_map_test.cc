#include "storage_node/pool/owner_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonpool::storage_node {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<uint64_t> Offsets(const Owners& owners) {
  std::vector<uint64_t> offsets;
  for (const Owner* owner : owners) offsets.push_back(owner->offset);
  return offsets;
}

TEST(OwnerMap, FindsEveryOwnerOfARange) {
  OwnerMap map;
  map.Insert(Generation{1}, 0, 64);
  map.Insert(Generation{2}, 64, 100);
  map.Insert(Generation{3}, 256, 64);
  EXPECT_THAT(Offsets(map.Overlapping(0, 64)), ElementsAre(0));
  EXPECT_THAT(Offsets(map.Overlapping(63, 65)), ElementsAre(0, 64));
  EXPECT_THAT(Offsets(map.Overlapping(128, 192)), ElementsAre(64));
  EXPECT_THAT(Offsets(map.Overlapping(192, 256)), IsEmpty());
  EXPECT_THAT(Offsets(map.Overlapping(0, 1024)), ElementsAre(0, 64, 256));
}

TEST(OwnerMap, ListsThePartsOfAGenerationWhateverIsErased) {
  OwnerMap map;
  Owner& a = map.Insert(Generation{7}, 0, 64);
  Owner& b = map.Insert(Generation{7}, 64, 64);
  Owner& c = map.Insert(Generation{7}, 128, 64);
  map.Insert(Generation{8}, 192, 64);
  EXPECT_THAT(Offsets(map.OfGeneration(Generation{7})), UnorderedElementsAre(0, 64, 128));
  map.Erase(b);
  EXPECT_THAT(Offsets(map.OfGeneration(Generation{7})), UnorderedElementsAre(0, 128));
  map.Erase(c);
  EXPECT_THAT(Offsets(map.OfGeneration(Generation{7})), UnorderedElementsAre(0));
  map.Erase(a);
  EXPECT_THAT(Offsets(map.OfGeneration(Generation{7})), IsEmpty());
  EXPECT_EQ(map.size(), 1u);
}

TEST(OwnerMap, AForgottenOwnerKeepsItsBytesOnly) {
  OwnerMap map;
  Owner& owner = map.Insert(Generation{7}, 64, 64);
  map.Forget(owner);
  EXPECT_THAT(Offsets(map.OfGeneration(Generation{7})), IsEmpty());
  EXPECT_THAT(Offsets(map.Overlapping(0, 128)), ElementsAre(64));
  map.Insert(Generation{7}, 128, 64);
  map.Erase(owner);
  EXPECT_THAT(Offsets(map.OfGeneration(Generation{7})), ElementsAre(128));
}

TEST(OwnerMap, UsesSlotsAgain) {
  OwnerMap map;
  for (uint64_t i = 1; i < 1000; ++i) {
    Owner& owner = map.Insert(Generation{i}, 0, 64);
    owner.SetText("key", "parent");
    EXPECT_EQ(owner.key(), "key");
    EXPECT_EQ(owner.parent(), "parent");
    map.Erase(owner);
  }
  EXPECT_EQ(map.size(), 0u);
  EXPECT_EQ(map.Find(0), nullptr);
}

TEST(NamespaceTable, ANameLivesAsLongAsItsUses) {
  NamespaceTable table;
  const NamespaceTable::Id a = table.Acquire("a");
  EXPECT_EQ(table.Acquire("a"), a);
  const NamespaceTable::Id b = table.Acquire("b");
  EXPECT_NE(a, b);
  table.Release(a);
  EXPECT_EQ(table.NameOf(a), "a");
  table.Release(a);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.Acquire("c"), a);
  EXPECT_EQ(table.NameOf(a), "c");
}

}  // namespace
}  // namespace moonpool::storage_node
