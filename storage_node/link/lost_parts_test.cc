// How the master learns that parts were found damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "storage_node/link/master_link.h"
#include "storage_node/link/testing/master_link_fixture.h"

namespace moonpool::storage_node {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kLostMax = 5;

class LostPartsTest : public MasterLinkTest {
 protected:
  LostPartsTest() : MasterLinkTest({.lost_parts_max = kLostMax}) {}

  void PutAndLose(uint32_t counter) {
    const Extent extent = At(counter * 128, 128);
    ASSERT_THAT(pool_.Put(Gen(1, counter), extent, absl::StrCat("k", counter)), IsOk());
    ASSERT_TRUE(pool_.index().DropIfDamaged(
        *pool_.index().FindRecord(Gen(1, counter), extent),
        pool_.index().OpenAtRest(Gen(1, counter), extent)->order, /*is_payload_whole=*/false));
  }
  static std::vector<std::string> Lost(const LinkOutput& out) {
    std::vector<std::string> lost;
    for (const v1::NodeMessage& message : out.send) {
      for (const v1::LostPart& part : message.parts_lost().parts()) {
        lost.push_back(absl::StrCat(ToString(Generation{part.generation()}), "@",
                                    part.extent().offset(), "+", part.extent().length()));
      }
    }
    return lost;
  }
};

TEST_F(LostPartsTest, TheyAreNamedAtOnceInBoundedMessages) {
  GoLive();
  Tick();
  for (uint32_t i = 1; i <= 3; ++i) PutAndLose(i);
  EXPECT_THAT(Lost(Tick(/*has_room=*/false)), IsEmpty());
  const LinkOutput first = Tick();
  EXPECT_THAT(Lost(first), ElementsAre("1.1@128+128", "1.2@256+128"));
  EXPECT_EQ(first.wake_at, now_);
  EXPECT_THAT(Lost(Tick()), ElementsAre("1.3@384+128"));
  EXPECT_THAT(Lost(Tick()), IsEmpty());
  EXPECT_EQ(metrics_.lost_parts.value(), 3u);
}

TEST_F(LostPartsTest, WhatIsLostWhileTheInventoryIsUnderWayIsNamedBehindIt) {
  for (uint32_t i = 1; i <= 4; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, i), At(i * 128, 128), absl::StrCat("k", i)), IsOk());
  }
  Register();
  const LinkOutput first = Tick();
  EXPECT_THAT(Keys(first.send), ElementsAre("inventory k1", "inventory k2"));
  const Extent extent = At(128, 128);
  ASSERT_TRUE(pool_.index().DropIfDamaged(*pool_.index().FindRecord(Gen(1, 1), extent), Gen(1, 1),
                                          /*is_payload_whole=*/false));
  for (const v1::NodeMessage& message : Upload()) EXPECT_FALSE(message.has_parts_lost());
  EXPECT_THAT(Lost(Tick()), ElementsAre("1.1@128+128"));
}

TEST_F(LostPartsTest, MoreThanAreRememberedAreToldByANewInventory) {
  GoLive();
  for (uint32_t i = 1; i <= kLostMax + 1; ++i) PutAndLose(i);
  EXPECT_TRUE(Tick().disconnect);
  EXPECT_EQ(metrics_.report_overflows.value(), 1u);
  GoLive();
  EXPECT_THAT(Lost(Tick()), IsEmpty()) << "the inventory has said it";
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(LostPartsTest, AMasterThatDoesNotKnowTheMessageIsToldByANewInventory) {
  v1::MasterMessage older = Registered(1);
  older.mutable_registered()->mutable_version()->set_minor(2);
  Connect();
  Receive(older);
  Upload();
  PutAndLose(1);
  EXPECT_TRUE(Tick().disconnect);
  Connect();
  Receive(older);
  EXPECT_THAT(Keys(Upload()), IsEmpty());
  const LinkOutput out = Tick();
  EXPECT_FALSE(out.disconnect);
  EXPECT_THAT(Lost(out), IsEmpty());
}

}  // namespace
}  // namespace moonpool::storage_node
