#include "client_sdk/core/location_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/random.h"

namespace moonpool::client {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

LocationPtr At(uint64_t generation, uint64_t offset = 0) {
  Replicas replicas(1);
  replicas[0].parts.push_back({nullptr, {.segment = {}, .offset = offset, .length = 164}});
  return std::make_shared<const Location>(
      Generation{generation}, static_cast<uint32_t>(generation + 1000), 100, std::move(replicas));
}

TEST(LocationCache, FindsWhatWasInserted) {
  LocationCache cache(64);
  EXPECT_EQ(cache.Find("k"), nullptr);
  cache.Insert("k", At(7));
  ASSERT_NE(cache.Find("k"), nullptr);
  EXPECT_EQ(cache.Find("k")->generation(), Generation{7});
  EXPECT_EQ(cache.size(), 1u);
}

TEST(LocationCache, KeepsTheNewerGenerationWhateverTheOrder) {
  LocationCache cache(64);
  cache.Insert("k", At(9));
  EXPECT_EQ(cache.Insert("k", At(7))->generation(), Generation{9});
  EXPECT_EQ(cache.Find("k")->generation(), Generation{9});
  EXPECT_EQ(cache.Insert("k", At(11))->generation(), Generation{11});
  EXPECT_EQ(cache.Find("k")->generation(), Generation{11});
}

TEST(LocationCache, KeepsWhatWasFoundOutAboutTheSameLocationOnly) {
  LocationCache cache(64);
  cache.Insert("k", At(7))->SetVerified(0);
  EXPECT_TRUE(cache.Insert("k", At(7))->is_verified(0));
  EXPECT_FALSE(cache.Insert("k", At(7, /*offset=*/4096))->is_verified(0));
}

TEST(LocationCache, ErasesOnlyTheGenerationThatWasWrong) {
  LocationCache cache(64);
  cache.Insert("k", At(9));
  cache.Erase("k", Generation{7});
  EXPECT_NE(cache.Find("k"), nullptr);
  cache.Erase("k", Generation{9});
  EXPECT_EQ(cache.Find("k"), nullptr);
  cache.Insert("k", At(9));
  cache.Erase("k");
  EXPECT_EQ(cache.size(), 0u);
}

TEST(LocationCache, IsBoundedAndKeepsWhatIsUsed) {
  LocationCache cache(64);
  cache.Insert("hot", At(1));
  for (uint64_t i = 0; i < 10000; ++i) {
    cache.Insert(absl::StrCat("cold-", i), At(i + 2));
    ASSERT_NE(cache.Find("hot"), nullptr) << i;
  }
  EXPECT_LE(cache.size(), 64u);
  EXPECT_GE(cache.size(), 32u);
}

TEST(LocationCache, OfNoEntriesKeepsNothing) {
  LocationCache cache(0);
  EXPECT_NE(cache.Insert("k", At(1)), nullptr);
  EXPECT_EQ(cache.Find("k"), nullptr);
}

TEST(LocationCache, RecordsEachHitOnceBetweenTwoRequests) {
  LocationCache cache(64);
  cache.Insert("a", At(1));
  cache.Insert("b", At(2));
  EXPECT_THAT(cache.TakeTouched(), IsEmpty());
  for (int i = 0; i < 3; ++i) {
    cache.Find("a");
    cache.Find("b");
  }
  EXPECT_THAT(cache.TakeTouched(),
              UnorderedElementsAre(Touched{1001, Generation{1}}, Touched{1002, Generation{2}}));
  EXPECT_THAT(cache.TakeTouched(), IsEmpty());
  cache.Find("a");
  EXPECT_THAT(cache.TakeTouched(), UnorderedElementsAre(Touched{1001, Generation{1}}));
}

TEST(LocationCache, BoundsWhatOneRequestCarries) {
  LocationCache cache(1 << 16);
  for (uint64_t i = 0; i < 20000; ++i) {
    cache.Insert(absl::StrCat(i), At(i + 1));
    cache.Find(absl::StrCat(i));
  }
  const size_t taken = cache.TakeTouched().size();
  EXPECT_LE(taken, LocationCache::kTouchedMax);
  EXPECT_GE(taken, LocationCache::kTouchedMax * 9 / 10);
}

// For ThreadSanitizer; and a location always belongs to its key.
TEST(LocationCache, ServesManyThreads) {
  LocationCache cache(128);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      Random random(t);
      for (int i = 0; i < 5000; ++i) {
        const uint64_t id = random.Below(300);
        const std::string key = absl::StrCat("key-", id);
        switch (random.Below(4)) {
          case 0: cache.Insert(key, At(id + 1)); break;
          case 1: cache.Erase(key, Generation{id + 1}); break;
          case 2: cache.TakeTouched(); break;
          default:
            if (const LocationPtr found = cache.Find(key)) {
              EXPECT_EQ(found->generation(), Generation{id + 1});
              found->SetVerified(0);
            }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.size(), 128u);
}

}  // namespace
}  // namespace moonpool::client
