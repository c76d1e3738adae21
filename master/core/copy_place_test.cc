// Where copies go while the best place is not to be had.
#include <string>

#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;

// The writer has failed at one of two nodes, which is now to forget what it may have sealed. It is
// the only one on the other host, and worth waiting for.
TEST(CopyPlace, ANodeThatHasStillToForgetIsAwaitedWhereOthersAreCloser) {
  CopyPool pool;
  pool.Join("a1", 100 * kBlock, "a");
  pool.Join("b1", 100 * kBlock, "b");
  pool.Advance(absl::Minutes(2));
  pool.KeepAlive();
  const Grant grant = pool.Grab("key", 10, {.replicas = 2, .min_replicas = 1});
  ASSERT_EQ(grant.replicas.size(), 2u);
  pool.Join("a2", 100 * kBlock, "a");
  const uint32_t at_b = grant.replicas[1].parts[0].node == pool.nodes[1]->id ? 1 : 0;
  for (const SealedPart& part : CoreFixture::Sealed("key", 10, grant, pool.nodes[0]->id)) {
    ASSERT_TRUE(pool.nodes[0]->Seal({.generation = grant.generation,
                                     .key = "key",
                                     .parent = "",
                                     .extent = part.extent,
                                     .object_bytes = 10,
                                     .replica_index = part.replica_index}));
  }
  ASSERT_THAT(pool.Commit(grant, {at_b}), IsOk());
  pool.Advance(absl::Milliseconds(20));
  EXPECT_EQ(pool.Status().totals.copies_started, 0u) << "b1 has not forgotten yet";
  pool.Settle();
  EXPECT_THAT(pool.Holders("key"), ElementsAre("a1", "b1"));
}

}  // namespace
}  // namespace moonpool::master
