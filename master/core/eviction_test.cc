// Space: eviction, chains, leases, fragmentation, and what refusals say.
#include <string>
#include <vector>

#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(Eviction, APutInAFullPoolTakesOnlyWhatItNeeds) {
  CoreFixture pool({.eviction_policy = "lru"});
  pool.AddNode("n1", 4 * kBlock);
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_THAT(pool.Put(key, kBlockPayload), IsOk());
  EXPECT_THAT(pool.Put("e", kBlockPayload), IsOk());
  EXPECT_THAT(pool.Get("a").status, Fails(StatusCode::kNotFound, ErrorReason::kEvicted));
  EXPECT_THAT(std::string(pool.Get("a").status.message()), HasSubstr("lru"));
  for (const char* key : {"b", "c", "d", "e"}) EXPECT_THAT(pool.Get(key).status, IsOk());
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 1u);
}

TEST(Eviction, ReadsThroughKnownLocationsCount) {
  CoreFixture pool({.eviction_policy = "lru"});
  pool.AddNode("n1", 3 * kBlock);
  const Grant a = pool.Grab("a", kBlockPayload);
  ASSERT_THAT(pool.Commit(a), IsOk());
  ASSERT_THAT(pool.Put("b", kBlockPayload), IsOk());
  ASSERT_THAT(pool.Put("c", kBlockPayload), IsOk());
  const Touch touches[] = {
      {a.handle, a.generation}, {a.handle, Generation{1}}, {999, Generation{1}}};
  ASSERT_TRUE(pool.core.Exists(Caller{.touched = touches}, {}, pool.now).ok());
  ASSERT_THAT(pool.Put("d", kBlockPayload), IsOk());
  EXPECT_THAT(pool.Exists("a"), IsOk());
  EXPECT_THAT(pool.Exists("b"), Fails(StatusCode::kNotFound, ErrorReason::kEvicted));
}

TEST(Eviction, LeavesGoBeforeTheirParents) {
  CoreFixture pool({.eviction_policy = "lru"});
  pool.AddNode("n1", 3 * kBlock);
  ASSERT_THAT(pool.Put("root", kBlockPayload), IsOk());
  ASSERT_THAT(pool.Put("middle", kBlockPayload, {.parent = "root"}), IsOk());
  ASSERT_THAT(pool.Put("leaf", kBlockPayload, {.parent = "middle"}), IsOk());
  ASSERT_THAT(pool.Put("x", kBlockPayload), IsOk());
  EXPECT_FALSE(pool.Exists("leaf").ok());
  EXPECT_THAT(pool.Exists("root"), IsOk());
  EXPECT_THAT(pool.Exists("middle"), IsOk());
}

TEST(Eviction, AnOpenGrantHoldsItsParent) {
  CoreFixture pool({.eviction_policy = "lru"});
  pool.AddNode("n1", 3 * kBlock);
  ASSERT_THAT(pool.Put("parent", kBlockPayload), IsOk());
  ASSERT_THAT(pool.Put("other", kBlockPayload), IsOk());
  const Grant child = pool.Grab("child", kBlockPayload, {.parent = "parent"});
  ASSERT_THAT(pool.Put("x", kBlockPayload), IsOk());
  EXPECT_THAT(pool.Exists("parent"), IsOk());
  EXPECT_FALSE(pool.Exists("other").ok());
  ASSERT_THAT(pool.Abort(child), IsOk());
  ASSERT_THAT(pool.Remove("x").status, IsOk());
  EXPECT_EQ(pool.core.ListObjects({.caller = pool.Me()}, pool.now)->objects[0].children, 0u);
}

TEST(Chains, AParentThatComesLateFindsItsChildren) {
  CoreFixture pool({.eviction_policy = "lru"});
  pool.AddNode("n1", 3 * kBlock);
  ASSERT_THAT(pool.Put("child", kBlockPayload, {.parent = "parent"}), IsOk());
  EXPECT_THAT(pool.Exists("parent"), Fails(StatusCode::kNotFound, ErrorReason::kNeverStored));
  ASSERT_THAT(pool.Put("parent", kBlockPayload), IsOk());
  const WhyResult why = *pool.core.Why("", "parent", pool.now);
  EXPECT_EQ(why.state, "stored");
  EXPECT_EQ(why.children, 1u);
  EXPECT_EQ(pool.core.Why("", "child", pool.now)->parent, "parent");
  ASSERT_THAT(pool.Put("x", kBlockPayload), IsOk());
  ASSERT_THAT(pool.Put("y", kBlockPayload), IsOk());
  EXPECT_FALSE(pool.Exists("child").ok());
  EXPECT_THAT(pool.Exists("parent"), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Chains, ARemovedParentLeavesItsChildren) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("parent", 1), IsOk());
  ASSERT_THAT(pool.Put("child", 1, {.parent = "parent"}), IsOk());
  ASSERT_THAT(pool.Remove("parent").status, IsOk());
  EXPECT_THAT(pool.Exists("child"), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  ASSERT_THAT(pool.Put("parent", 1), IsOk());
  EXPECT_EQ(pool.core.Why("", "parent", pool.now)->children, 1u);
  ASSERT_THAT(pool.Remove("child").status, IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Chains, ACircleHoldsNothingBack) {
  CoreFixture pool;
  pool.AddNode("n1", 3 * kBlock);
  ASSERT_THAT(pool.Put("a", kBlockPayload, {.parent = "b"}), IsOk());
  ASSERT_THAT(pool.Put("b", kBlockPayload, {.parent = "c"}), IsOk());
  ASSERT_THAT(pool.Put("c", kBlockPayload, {.parent = "a"}), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  EXPECT_THAT(pool.Put("all", 3 * kBlock - kPartHeaderBytes), IsOk());
}

TEST(Lease, HoldsAnObjectUntilItEnds) {
  CoreFixture pool({.max_lease = absl::Seconds(10), .leased_fraction = 1.0});
  pool.AddNode("n1", kBlock);
  ASSERT_THAT(pool.Put("a", kBlockPayload), IsOk());
  EXPECT_EQ(pool.Get("a", absl::Seconds(2)).location.lease, absl::Seconds(2));
  PutOutcome refused = pool.Start("b", kBlockPayload, {.waits = true});
  EXPECT_THAT(refused.status, Fails(StatusCode::kResourceExhausted, ErrorReason::kNoSpace));
  EXPECT_EQ(refused.wait, Wait::kSpace);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr(absl::StrCat("leased ", kBlock)));
  const uint64_t before = pool.core.change_count();
  pool.Advance(absl::Seconds(2));
  EXPECT_NE(pool.core.change_count(), before);
  EXPECT_THAT(pool.Put("b", kBlockPayload), IsOk());
}

TEST(Lease, IsCappedAndTheLongestCounts) {
  CoreFixture pool({.max_lease = absl::Seconds(3), .leased_fraction = 1.0});
  pool.AddNode("n1", kBlock);
  ASSERT_THAT(pool.Put("a", kBlockPayload), IsOk());
  EXPECT_EQ(pool.Get("a", absl::Hours(1)).location.lease, absl::Seconds(3));
  EXPECT_EQ(pool.Get("a", absl::Seconds(1)).location.lease, absl::Seconds(1));
  pool.Advance(absl::Seconds(2));
  EXPECT_FALSE(pool.Put("b", kBlockPayload).ok());
  pool.Advance(absl::Seconds(1));
  EXPECT_THAT(pool.Put("b", kBlockPayload), IsOk());
}

TEST(Lease, BeyondTheShareTheLocationIsAHint) {
  CoreFixture pool({.leased_fraction = 0.25});
  pool.AddNode("n1", 8 * kBlock);
  for (int i = 0; i < 8; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  int leased = 0;
  for (int i = 0; i < 8; ++i) {
    const LocateOutcome found = pool.Get(absl::StrCat("k", i), absl::Seconds(5));
    EXPECT_THAT(found.status, IsOk());
    if (found.location.lease > absl::ZeroDuration()) ++leased;
  }
  EXPECT_EQ(leased, 2);
  EXPECT_EQ(pool.core.GetStatus(pool.now).leased_bytes, 2 * kBlock);
  EXPECT_THAT(pool.Put("x", kBlockPayload), IsOk()) << "readers do not starve writers";
}

TEST(Lease, LookingAloneTakesNone) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  ASSERT_THAT(pool.Put("a", kBlockPayload), IsOk());
  pool.Get("a");
  EXPECT_THAT(pool.Exists("a"), IsOk());
  EXPECT_EQ(pool.core.GetStatus(pool.now).live_leases, 0u);
}

TEST(FullPool, ThreeHundredPutsWhileEverythingIsReadAreNeverRefused) {
  CoreFixture pool;
  pool.AddNode("n1", 25 * kBlock);
  pool.AddNode("n2", 25 * kBlock);
  std::string parent;
  for (int i = 0; i < 50; ++i) {
    const std::string key = absl::StrCat("old", i);
    ASSERT_THAT(pool.Put(key, kBlockPayload, {.parent = parent}), IsOk());
    parent = i % 10 == 9 ? "" : key;
  }
  for (int i = 0; i < 300; ++i) {
    for (int k = 0; k < 50; ++k) pool.Get(absl::StrCat("old", k), absl::Seconds(1));
    for (int k = 0; k < i; ++k) pool.Get(absl::StrCat("new", k), absl::Seconds(1));
    const std::string key = absl::StrCat("new", i);
    ASSERT_THAT(pool.Put(key, kBlockPayload), IsOk()) << i;
    ASSERT_THAT(pool.Get(key, absl::Seconds(1)).status, IsOk()) << i;
    pool.Advance(absl::Milliseconds(10));
  }
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.puts_refused, 0u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(FullPool, HoldsAsManyObjectsAsItsBytesPromise) {
  constexpr uint64_t kCount = 100;
  CoreFixture pool;
  pool.AddNode("n1", kCount * 65536 * 103 / 100);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("k", i), 65536), IsOk());
  }
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 0u);
}

// Every second block is free, none of the others may go.
void MakeHoles(CoreFixture& pool, int blocks) {
  for (int i = 0; i < blocks; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  }
  for (int i = 0; i < blocks; i += 2) {
    ASSERT_THAT(pool.Remove(absl::StrCat("k", i)).status, IsOk());
    ASSERT_EQ(pool.Get(absl::StrCat("k", i + 1), absl::Seconds(9)).location.lease,
              absl::Seconds(9));
  }
}

TEST(Fragmentation, HolesAreJoinedForALargeObject) {
  CoreFixture pool(
      {.max_lease = absl::Seconds(10), .leased_fraction = 1.0, .min_part_bytes = 1024});
  pool.AddNode("n1", 64 * kBlock);
  MakeHoles(pool, 64);
  const uint64_t size = 30 * kBlockPayload;
  const Grant grant = pool.Grab("large", size);
  uint64_t payload = 0;
  for (const Part& part : grant.replicas[0].parts) payload += part.extent.payload_bytes();
  EXPECT_EQ(payload, size);
  EXPECT_EQ(grant.replicas[0].parts.size(), 30u);
  EXPECT_THAT(pool.Commit(grant), IsOk());
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 0u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Fragmentation, ARefusalNamesWhatHoldsTheSpace) {
  CoreFixture pool({.max_lease = absl::Seconds(10), .leased_fraction = 1.0});
  pool.AddNode("n1", 8 * kBlock);
  MakeHoles(pool, 8);
  const PutOutcome refused = pool.Start("large", 5 * kBlock);
  EXPECT_THAT(refused.status, Fails(StatusCode::kResourceExhausted, ErrorReason::kNoSpace));
  const std::string message(refused.status.message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("capacity ", 8 * kBlock)));
  EXPECT_THAT(message, HasSubstr(absl::StrCat("leased ", 4 * kBlock)));
  EXPECT_THAT(message, HasSubstr(absl::StrCat("largest free range ", kBlock)));
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 0u) << "nothing is evicted in vain";
}

TEST(Fragmentation, EvictionGoesOnUntilALargeObjectFits) {
  CoreFixture pool;
  pool.AddNode("n1", 100 * kBlock);
  for (int i = 0; i < 100; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  EXPECT_THAT(pool.Put("large", 90 * kBlock), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Eviction, ObjectsOnNodesThatAreAwayAreNotEvictedForNothing) {
  CoreFixture pool({.eviction_policy = "lru"});
  const NodeHandle n1 = pool.AddNode("n1", 4 * kBlock);
  for (int i = 0; i < 4; ++i) ASSERT_THAT(pool.Put(absl::StrCat("a", i), kBlockPayload), IsOk());
  pool.AddNode("n2", 4 * kBlock);
  for (int i = 0; i < 4; ++i) ASSERT_THAT(pool.Put(absl::StrCat("b", i), kBlockPayload), IsOk());
  pool.Disconnect(n1);
  ASSERT_THAT(pool.Put("c", kBlockPayload), IsOk());
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.evicted, 1u);
  EXPECT_THAT(pool.Exists("b0"), Fails(StatusCode::kNotFound, ErrorReason::kEvicted));
  const NodeHandle back = pool.Register(n1.description);
  pool.Complete(back);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

}  // namespace
}  // namespace moonpool::master
