#include "cli/drain_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonpool::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A node of which its master knows no part.
v1::NodeStatus Empty() {
  v1::NodeStatus node;
  node.set_up(true);
  node.set_inventory_complete(true);
  node.mutable_drain();
  return node;
}

TEST(DrainText, TheMasterSaysWhetherItIsDone) {
  v1::NodeStatus node = Empty();
  node.mutable_drain()->set_done(true);
  EXPECT_THAT(Describe(node), StartsWith("drained"));
  node.mutable_drain()->set_done(false);
  EXPECT_THAT(Describe(node), StartsWith("draining, 0 parts left"));
  EXPECT_EQ(DrainToJson(node)["done"], false);
  node.mutable_drain()->set_bytes_left(4096);
  EXPECT_THAT(Describe(node), HasSubstr("no other half yet"));
}

TEST(DrainText, OfAnOlderMasterOnlyWhatANodeThatIsThereHasReportedCounts) {
  EXPECT_TRUE(IsDone(Empty()));
  v1::NodeStatus joining = Empty();
  joining.set_inventory_complete(false);
  EXPECT_FALSE(IsDone(joining));
  EXPECT_THAT(Describe(joining), HasSubstr("still reporting"));
  v1::NodeStatus away = Empty();
  away.set_up(false);
  EXPECT_FALSE(IsDone(away));
  EXPECT_THAT(Describe(away), HasSubstr("the node is down"));
}

}  // namespace
}  // namespace moonpool::cli
