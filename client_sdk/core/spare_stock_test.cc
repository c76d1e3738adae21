#include "client_sdk/core/spare_stock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonpool::client {
namespace {

using ::testing::SizeIs;

constexpr SpareKind kKind{.size_bytes = 100, .replicas = 1};
const absl::Time kNow = absl::UnixEpoch();

class SpareStockTest : public ::testing::Test {
 protected:
  void Add(uint64_t generation, absl::Time use_until = kNow + absl::Seconds(1)) {
    SpareGrant spare{.use_until = use_until};
    spare.grant.generation = Generation{generation};
    stock_.Add(kKind, std::move(spare));
  }
  uint64_t Take(const SpareKind& kind = kKind, absl::Time now = kNow) {
    const std::optional<SpareGrant> spare = stock_.Take(kind, now);
    return spare.has_value() ? spare->grant.generation.value : 0;
  }
  void Put(int times, const SpareKind& kind = kKind) {
    for (int i = 0; i < times; ++i) stock_.TookPut(kind);
  }

  SpareStock stock_{SpareStockOptions{}};
};

TEST_F(SpareStockTest, WhoPutsOnceGetsNone) {
  Put(1);
  EXPECT_EQ(stock_.Wanted(kKind, kNow), 0u);
  Put(1);
  EXPECT_EQ(stock_.Wanted(kKind, kNow), SpareStock::kHeld);
}

TEST_F(SpareStockTest, AnotherKindIsAnother) {
  Put(2);
  Add(1);
  EXPECT_EQ(Take({.size_bytes = 101, .replicas = 1}), 0u);
  EXPECT_EQ(Take({.size_bytes = 100, .replicas = 2}), 0u);
  EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(Take(), 0u);
}

TEST_F(SpareStockTest, TheOldestGoesFirstAndWhatIsTooOldNotAtAll) {
  Put(2);
  Add(1, kNow);
  Add(2);
  Add(3);
  EXPECT_EQ(Take(), 2u);
  EXPECT_EQ(Take(kKind, kNow + absl::Seconds(1)), 0u);
}

TEST_F(SpareStockTest, MoreAreWishedForWhenHalfAreGone) {
  Put(2);
  for (uint64_t i = 1; i <= SpareStock::kHeld; ++i) Add(i);
  EXPECT_EQ(stock_.Wanted(kKind, kNow), 0u);
  for (uint32_t i = 0; i < SpareStock::kHeld / 2; ++i) Take();
  EXPECT_EQ(stock_.Wanted(kKind, kNow), SpareStock::kHeld / 2);
  EXPECT_EQ(stock_.Wanted(kKind, kNow + absl::Seconds(1)), SpareStock::kHeld);  // all too old
}

TEST_F(SpareStockTest, AfterAFailureThereAreNoneForAWhile) {
  Put(2);
  Add(1);
  Add(2);
  Take();
  EXPECT_THAT(stock_.Failed(kKind), SizeIs(1));
  Put(SpareStockOptions().puts_after_failure - 1);
  EXPECT_EQ(stock_.Wanted(kKind, kNow), 0u);
  Put(1);
  EXPECT_EQ(stock_.Wanted(kKind, kNow), SpareStock::kHeld);
}

TEST_F(SpareStockTest, FewKindsAreRemembered) {
  Put(2);
  for (uint64_t size = 1; size <= SpareStock::kKinds; ++size) {
    Put(1, {.size_bytes = size, .replicas = 1});
  }
  EXPECT_EQ(stock_.Wanted(kKind, kNow), 0u);
  Add(1);
  EXPECT_EQ(Take(), 0u);
}

TEST_F(SpareStockTest, LargeObjectsHaveNone) {
  const SpareKind large{.size_bytes = SpareStock::kSizeMax + 1, .replicas = 1};
  Put(2, large);
  EXPECT_EQ(stock_.Wanted(large, kNow), 0u);
}

TEST_F(SpareStockTest, AtTheEndAllIsGivenBack) {
  Put(2);
  Add(1);
  Add(2);
  EXPECT_THAT(stock_.TakeAll(), SizeIs(2));
  EXPECT_EQ(Take(), 0u);
}

}  // namespace
}  // namespace moonpool::client
