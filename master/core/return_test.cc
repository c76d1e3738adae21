// What nodes bring back, and what must stay away though the memory of deaths is bounded (R5, R6).
#include <string>
#include <vector>

#include "master/core/testing/copy_pool.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

TEST(Return, AnAttemptThatWasGivenUpStaysAwayThoughItsDeathIsForgotten) {
  CoreFixture pool({.obituaries = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(11));
  pool.AddNode("n2", 10 * kBlock);
  ForgetDeaths(pool);
  const NodeHandle back = pool.Register(n1.description);
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, grant.generation)) << "sealed, and never reported";
  pool.Inventory(back, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Return, ARemovalWaitsForANodeThatMayHaveAnAttemptOfTheKey) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(11));
  pool.AddNode("n2", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  const RemoveTicket other = [&] {
    EXPECT_THAT(pool.Put("b", 10), IsOk());
    return pool.Remove("b").ticket;
  }();
  const RemoveTicket ticket = pool.Remove("a").ticket;
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(other)) << "n1 has nothing of that one";
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket)) << "n1 would bring it to the next master";
  pool.Register(n1.description);
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, grant.generation));
  for (const FreeCommand& free : frees) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Return, ARemovalWaitsForWhatWasLostWithItsNodeAndWrittenAnew) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant lost = pool.Grab("a", 10);
  ASSERT_THAT(pool.Commit(lost), IsOk());
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  pool.AddNode("n2", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  const RemoveTicket ticket = pool.Remove("a").ticket;
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket));
  pool.Register(n1.description);
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, lost.generation));
  for (const FreeCommand& free : frees) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Return, ARemovalOfWhatCameBackAsksAllThatHadIt) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const NodeHandle n2 = pool.AddNode("n2", 10 * kBlock);
  const Grant lost = pool.Grab("a", 10, {.replicas = 2});
  ASSERT_THAT(pool.Commit(lost), IsOk());
  pool.Disconnect(n1);
  pool.Disconnect(n2);
  pool.Advance(absl::Seconds(6));
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("a", 10, lost, n1.id));
  pool.Complete(back);
  ASSERT_THAT(pool.Exists("a"), IsOk());
  const RemoveTicket ticket = pool.Remove("a").ticket;
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket)) << "n2 would bring it to the next master";
  pool.Register(n2.description);
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n2.id, lost.generation));
  for (const FreeCommand& free : frees) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Return, WhatCameBackIsNotFreedSinceItsDeathIsForgotten) {
  CoreFixture pool({.obituaries = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("a", 10, grant, n1.id));
  pool.Complete(back);
  ASSERT_THAT(pool.Exists("a"), IsOk());
  pool.Disconnect(back);
  pool.AddNode("n2", 10 * kBlock);
  ForgetDeaths(pool);
  pool.Register(n1.description);
  EXPECT_FALSE(Names(pool.TakeFrees(), n1.id, grant.generation));
  EXPECT_THAT(pool.Exists("a"), IsOk());
}

TEST(Return, WhatWasEvictedBeforeANewerOneCameIsForgottenToo) {
  CoreFixture pool({.takeover_hold = absl::ZeroDuration()});
  RegisterNodeCommand description = CoreFixture::Description("n1", {kBlock});
  description.highest_term_seen = Term{5};
  const NodeHandle n1 = pool.Register(description);
  pool.Inventory(n1, {OldPart("a", 0, 1)});
  pool.Complete(n1);
  ASSERT_THAT(pool.Put("b", kBlockPayload), IsOk());
  ASSERT_THAT(pool.Exists("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  pool.Inventory(n2, {OldPart("a", 0, 2)});
  pool.Complete(n2);
  ASSERT_THAT(pool.Exists("a"), IsOk());
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, OldPart("a", 0, 1).generation));
  const RemoveTicket ticket = pool.Remove("a").ticket;
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket)) << "n1 would bring the older one to the next master";
  pool.Disconnect(n1);
  pool.Register(n1.description);
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Return, PartsThatWereNotTakenAreForgottenWithTheObject) {
  CoreFixture pool({.takeover_hold = absl::ZeroDuration()});
  RegisterNodeCommand description = CoreFixture::Description("n1", {kBlock});
  description.highest_term_seen = Term{5};
  const NodeHandle n1 = pool.Register(description);
  pool.Inventory(n1, {OldPart("a", 0)});
  pool.Complete(n1);
  description.name = "n2";
  const NodeHandle n2 = pool.Register(description);
  pool.Inventory(n2, {OldHalves("a")[0]});  // of another replica
  pool.Complete(n2);
  pool.Advance(absl::Seconds(61));
  ASSERT_THAT(pool.Exists("a"), IsOk());
  for (const char* key : {"b", "c"}) ASSERT_THAT(pool.Put(key, kBlockPayload), IsOk());
  ASSERT_THAT(pool.Exists("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
  EXPECT_TRUE(Names(pool.TakeFrees(), n2.id, OldPart("a", 0).generation))
      << "another half may complete it for the next master";
}

TEST(Return, WhatMayHaveBeenRemovedLongAgoIsRefused) {
  CoreFixture pool({.takeover_hold = absl::ZeroDuration(), .obituaries = 1});
  pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  ASSERT_NE(pool.Remove("a").ticket, RemoveTicket{});
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  ForgetDeaths(pool);
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  pool.Inventory(n2, {OldPart("a", 0)});
  EXPECT_FALSE(pool.Exists("a").ok()) << "nobody knows any more which keys were removed";
  EXPECT_TRUE(Names(pool.TakeFrees(), n2.id, OldPart("a", 0).generation));
}

TEST(Return, WhatNobodyFoundToRemoveIsNotFoundLaterEither) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant lost = pool.Grab("a", 10);
  ASSERT_THAT(pool.Commit(lost), IsOk());
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  EXPECT_THAT(pool.Remove("a").status, Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("a", 10, lost, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok());
}

TEST(Return, BytesThatWereGrantedAnewAreNotAdoptedForTheirOldOwner) {
  CoreFixture pool({.obituaries = 1});
  const NodeHandle n1 = pool.AddNode("n1", kBlock);
  const Grant evicted = pool.Grab("a", kBlockPayload);
  ASSERT_THAT(pool.Commit(evicted), IsOk());
  const Grant newer = pool.Grab("b", kBlockPayload);  // in its place
  ASSERT_THAT(pool.Abort(newer), IsOk());
  const NodeHandle back = pool.Register(n1.description);
  // As it was before the writer of "b", who may be late, has come.
  pool.Inventory(back, CoreFixture::Sealed("a", kBlockPayload, evicted, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok());
  EXPECT_EQ(pool.core.GetStatus(pool.now).used_bytes, 0u);
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, evicted.generation));
}

TEST(Return, AForgedAttemptOfTheOwnTermOccupiesNothing) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  SealedPart forged = OldPart("a", 3);
  forged.generation = Generation::Of(Term{7}, 999);
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, {forged});
  EXPECT_FALSE(pool.Exists("a").ok());
  EXPECT_EQ(pool.core.GetStatus(pool.now).used_bytes, 0u);
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, forged.generation));
}

TEST(Return, AHolderThatReportsWhileTheLeaseLastsIsToldWithTheOthers) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  pool.Inventory(n1, {OldPart("a", 0)});
  const RemoveTicket ticket = pool.Remove("a").ticket;
  pool.Complete(n1);
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  SealedPart replica = OldPart("a", 0);
  replica.replica_index = 1;
  pool.Inventory(n2, {replica});
  pool.Complete(n2);
  EXPECT_TRUE(pool.TakeFrees().empty()) << "an older leader may have leased it";
  pool.Advance(absl::Seconds(3));
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, replica.generation));
  EXPECT_TRUE(Names(frees, n2.id, replica.generation));
  for (const FreeCommand& free : frees) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Return, WhatIsSupersededUnderALeaseIsForgottenAfterIt) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  pool.Inventory(n1, {OldPart("a", 0, 1)});
  pool.Inventory(n2, {OldPart("a", 0, 2)});
  EXPECT_TRUE(pool.TakeFrees().empty()) << "the reader counts on the bytes";
  pool.Advance(absl::Seconds(3));
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, OldPart("a", 0, 1).generation));
}

TEST(Return, WhatAnOlderLeaderMayHaveLeasedRestsInWhateverOrderItIsReported) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  SealedPart half = OldHalves("b")[0];
  half.extent.offset = kBlock;
  pool.Inventory(n2, {OldPart("a", 0, 2)});
  pool.Inventory(n1, {OldPart("a", 0, 1), half});
  pool.Remove("b");
  EXPECT_TRUE(pool.TakeFrees().empty()) << "the reader counts on the bytes";
  EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, 2u * 128);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  pool.Advance(absl::Seconds(3));
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, OldPart("a", 0, 1).generation));
  EXPECT_TRUE(Names(frees, n1.id, half.generation));
  EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, 0u);
}

TEST(Return, OfANodeThatWasGivenUpNothingIsTakenThatIsNotProved) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  pool.Complete(n1);
  pool.Disconnect(n1);
  ASSERT_THAT(pool.core.ForgetNode("n1", pool.now), IsOk());
  pool.Advance(absl::Seconds(3));
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, {OldPart("a", 0)});
  EXPECT_FALSE(pool.Exists("a").ok()) << "it may have been removed, without asking this node";
  EXPECT_TRUE(Names(pool.TakeFrees(), back.id, OldPart("a", 0).generation));
}

TEST(Return, NorOfANodeWhoseRecordMadeRoomForAnother) {
  CoreFixture pool({.max_nodes = 1});
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  pool.Complete(n1);
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  const NodeHandle n2 = pool.AddNode("n2", 10 * kBlock);
  pool.Disconnect(n2);
  pool.Advance(absl::Seconds(6));
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, {OldPart("a", 0)});
  EXPECT_FALSE(pool.Exists("a").ok());
}

TEST(Return, ARemovalAsksWhoBroughtAReplicaThatNeverBecameWhole) {
  CoreFixture pool({.takeover_hold = absl::ZeroDuration()});
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  SealedPart half = OldPart("a", 0);
  half.extent.length = 5 + kPartHeaderBytes;
  half.part_count = 2;
  half.replica_index = 1;
  pool.Inventory(n1, {OldPart("a", 0)});
  pool.Inventory(n2, {half});
  pool.Complete(n1);
  pool.Complete(n2);
  pool.Advance(absl::Seconds(61));
  pool.Remove("a");
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, half.generation));
  EXPECT_TRUE(Names(frees, n2.id, half.generation));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Return, APartThatIsForgottenUnderALeaseRestsUntilItEnds) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  SealedPart half = OldHalves("a")[0];
  half.replica_index = 1;
  half.extent.offset = kBlock;
  pool.Inventory(n1, {OldPart("a", 0), half});
  const uint64_t both = pool.core.GetStatus(pool.now).used_bytes;
  pool.Inventory(n2, {OldPart("a", 0, 2)});
  EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, both) << "an older leader leased them";
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  pool.Advance(absl::Seconds(3));
  EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, 0u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Return, UnderALeaseTheBytesOfAllHoldersStayThoughThereIsNoRoomForRemovals) {
  CoreFixture pool({.max_tombstones = 0});
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  const NodeHandle n3 = pool.Register(OldNode("n3"));
  pool.Inventory(n1, {OldPart("a", 0, 1)});
  pool.Inventory(n2, {OldPart("a", 0, 2)});
  pool.Inventory(n3, {OldPart("a", 0, 1)});
  EXPECT_TRUE(pool.TakeFrees().empty()) << "the reader counts on the bytes";
  pool.Advance(absl::Seconds(3));
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, OldPart("a", 0, 1).generation));
  EXPECT_TRUE(Names(frees, n3.id, OldPart("a", 0, 1).generation));
}

TEST(Return, WhatWasRemovedBeforeItsNodeCameIsNotFoundLaterEither) {
  CoreFixture pool;
  EXPECT_THAT(pool.Remove("a").status,
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  pool.Inventory(n1, {OldPart("a", 0), OldPart("b", 1)});
  pool.Complete(n1);
  EXPECT_FALSE(pool.Exists("a").ok());
  EXPECT_THAT(pool.Exists("b"), IsOk());
}

TEST(Return, WhatWasEvictedStaysSoThoughAPartOfAnotherReplicaWaits) {
  CoreFixture pool({.eviction_policy = "lru"});
  const NodeHandle n0 = pool.Register(OldNode("n0"));
  pool.Inventory(n0, {OldHalves("key")[0]});
  pool.Complete(n0);
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  SealedPart whole = OldPart("key");
  whole.replica_index = 1;
  pool.Inventory(n1, {whole});
  pool.Complete(n1);
  ASSERT_THAT(pool.Exists("key"), IsOk());
  pool.Advance(absl::Seconds(4));  // past the leases of before
  for (int i = 0; i < 25; ++i) {
    ASSERT_THAT(pool.Put(absl::StrCat("other", i), kBlockPayload), IsOk());
  }
  ASSERT_EQ(ReasonOf(pool.Exists("key")), ErrorReason::kEvicted);
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, {whole});
  pool.Complete(back);
  EXPECT_EQ(ReasonOf(pool.Exists("key")), ErrorReason::kEvicted);
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, whole.generation));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// It has named it, and will not do so again.
TEST(Return, WhatIsDroppedWhileItsNodeReportsIsForgottenThere) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  pool.AddNode("n2", 10 * kBlock);
  const Grant grant = pool.Grab("key", 10, {.replicas = 2, .min_replicas = 1});
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("key", 10, grant, n1.id));
  const uint32_t failed = grant.replicas[0].parts[0].node == n1.id ? 0 : 1;
  ASSERT_THAT(pool.Commit(grant, {failed}), IsOk());
  pool.Complete(back);
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, grant.generation));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Return, OneTooManyGoesWhenThoseThatWereAwayAreBack) {
  CopyPool pool;
  pool.AddNodes(3, 100 * kBlock);
  pool.PutSealed("key", 10, {.replicas = 2});
  FakeNode& lost = *pool.NodeOf(pool.Get("key").location.replicas[0].parts[0].node);
  pool.Lose(lost);
  pool.Settle();
  ASSERT_THAT(pool.Holders("key"), testing::SizeIs(2));
  pool.Connect(lost);
  ASSERT_THAT(pool.Holders("key"), testing::SizeIs(3));
  for (const auto& node : pool.nodes) {
    if (node.get() != &lost) pool.Disconnect(*node);
  }
  pool.Advance(absl::Seconds(1));
  EXPECT_THAT(pool.Holders("key"), testing::SizeIs(3)) << "any of the others may be lost";
  for (const auto& node : pool.nodes) {
    if (node.get() != &lost) pool.Connect(*node);
  }
  pool.Settle();
  EXPECT_THAT(pool.Holders("key"), testing::SizeIs(2));
}

}  // namespace
}  // namespace moonpool::master
