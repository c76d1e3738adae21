// Replicas that are too many, and cannot go at once.
#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// Two nodes hold the key; a third one is empty.
class TrimTest : public testing::Test {
 protected:
  TrimTest() {
    pool.AddNodes(2, 100 * kBlock);
    pool.PutSealed("key", kBlockPayload, {.replicas = 2});
    pool.AddNodes(1, 100 * kBlock);
  }
  FakeNode& Node(size_t i) { return *pool.nodes[i]; }

  CopyPool pool;
};

TEST_F(TrimTest, WhatIsTooManyGoesWhenTheOthersAreBack) {
  pool.Lose(Node(1));
  pool.Settle();
  ASSERT_THAT(pool.Holders("key"), ElementsAre("n0", "n2"));
  // The third one comes while another is away, and perhaps for good.
  pool.Disconnect(Node(0));
  pool.Connect(Node(1));
  pool.Settle(absl::Seconds(1));
  ASSERT_THAT(pool.Holders("key"), SizeIs(3));
  pool.Connect(Node(0));
  pool.Settle();
  EXPECT_THAT(pool.Holders("key"), SizeIs(2));
}

TEST_F(TrimTest, ASurplusReplicaGoesWhenItCanIfItCannotNow) {
  pool.Lose(Node(1));
  pool.Settle();
  pool.AddNodes(1, 100 * kBlock);
  pool.Lose(Node(2));
  pool.Settle();
  ASSERT_THAT(pool.Holders("key"), ElementsAre("n0", "n3"));
  pool.Disconnect(Node(0));
  pool.Connect(Node(1));
  pool.Connect(Node(2));
  pool.Advance(absl::Seconds(2));
  EXPECT_THAT(pool.Holders("key"), SizeIs(3)) << "n0 may never return";
  pool.Connect(Node(0));
  pool.Settle();
  EXPECT_THAT(pool.Holders("key"), SizeIs(2));
  pool.ExpectReadable("key");
}

}  // namespace
}  // namespace moonpool::master
