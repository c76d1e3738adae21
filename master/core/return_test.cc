// What nodes bring back, and what must stay away though the memory of deaths is bounded (R5, R6).
#include <algorithm>
#include <string>
#include <vector>

#include "master/core/debt_table.h"
#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

bool Names(const std::vector<FreeCommand>& frees, NodeId node, Generation generation) {
  return std::any_of(frees.begin(), frees.end(), [&](const FreeCommand& free) {
    const auto& all = free.generations;
    return free.node == node && std::find(all.begin(), all.end(), generation) != all.end();
  });
}

// Deaths that push all others out of a small memory.
void ForgetDeaths(CoreFixture& pool) {
  for (const char* key : {"x", "y"}) {
    const Grant grant = pool.Grab(key, 10);
    ASSERT_THAT(pool.Abort(grant), IsOk());
  }
}

SealedPart OldPart(absl::string_view key, uint64_t block, uint32_t counter = 1) {
  return SealedPart{.generation = Generation::Of(Term{5}, counter),
                    .name_space = "default",
                    .key = key,
                    .extent = {SegmentId{0}, block * kBlock, 10 + kPartHeaderBytes},
                    .object_bytes = 10};
}

// The two parts of one object.
std::vector<SealedPart> OldHalves(absl::string_view key) {
  std::vector<SealedPart> halves(2, OldPart(key, 0));
  for (uint32_t i = 0; i < halves.size(); ++i) {
    halves[i].extent.length = 5 + kPartHeaderBytes;
    halves[i].part_index = i;
    halves[i].part_count = 2;
  }
  return halves;
}

RegisterNodeCommand OldNode(const std::string& name) {
  RegisterNodeCommand description = CoreFixture::Description(name, {10 * kBlock});
  description.highest_term_seen = Term{5};
  return description;
}

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
  CoreFixture pool({.obituaries = 1});
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

TEST(Return, ANodeWithMoreToForgetThanIsRememberedIsGivenUp) {
  CoreFixture pool({.max_owed_frees = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("c", 10), IsOk());
  pool.Grab("a", 10);
  pool.Grab("b", 10);
  pool.Disconnect(n1);
  const RemoveTicket ticket = pool.Remove("c").ticket;
  pool.Advance(absl::Seconds(11));
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket)) << "what it holds counts as gone";
  EXPECT_TRUE(pool.core.ListNodes(pool.now).empty());
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.nodes_given_up, 1u);
  EXPECT_TRUE(pool.core.TakeEffects().given_up.empty()) << "it has no session to be ended";
}

TEST(Return, ANodeInSessionThatIsGivenUpComesBackWhenTheLeasesHaveEnded) {
  CoreFixture pool({.max_lease = absl::Seconds(3), .max_owed_frees = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant lost = pool.Grab("c", 10);
  ASSERT_THAT(pool.Commit(lost), IsOk());
  ASSERT_THAT(pool.Abort(pool.Grab("a", 10)), IsOk());
  ASSERT_THAT(pool.Abort(pool.Grab("b", 10)), IsOk());
  pool.Advance(absl::Milliseconds(1));
  EXPECT_EQ(pool.core.TakeEffects().given_up, std::vector<NodeId>{n1.id});
  EXPECT_THAT(pool.Exists("c"), Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
  EXPECT_THAT(pool.core.RegisterNode(n1.description, pool.now),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNodeLost));
  pool.Advance(absl::Seconds(3));
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("c", 10, lost, n1.id));
  pool.Complete(back);
  EXPECT_THAT(pool.Exists("c"), IsOk()) << "it was lost with its node, and not removed since";
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
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

TEST(Return, WhatIsOwedIsNotAdoptedBeforeTheNodeIsTold) {
  CoreFixture pool({.obituaries = 1});
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  pool.Inventory(n1, {OldPart("a", 0)});
  ASSERT_THAT(pool.Exists("a"), IsOk());
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  pool.AddNode("n2", 10 * kBlock);
  ForgetDeaths(pool);
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, {OldPart("a", 0)});
  EXPECT_FALSE(pool.Exists("a").ok()) << "it would be live, without bytes";
  EXPECT_TRUE(Names(pool.TakeFrees(), n1.id, OldPart("a", 0).generation));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Return, APartThatItsNodeIsToForgetWaitsForNoOthers) {
  CoreFixture pool;
  const NodeHandle n0 = pool.AddNode("n0", 10 * kBlock);
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const std::vector<SealedPart> halves = OldHalves("a");
  pool.Inventory(n1, {halves[0]});
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, {halves[0]});
  pool.Complete(back);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, halves[0].generation)) << "a newer one lives";
  for (const FreeCommand& free : frees) pool.Confirm(free);
  pool.Disconnect(n0);
  pool.Advance(absl::Seconds(6));
  ASSERT_THAT(pool.Exists("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  pool.Inventory(n2, {halves[1]});
  EXPECT_FALSE(pool.Exists("a").ok()) << "n1 has forgotten its half";
  EXPECT_TRUE(Names(pool.TakeFrees(), n2.id, halves[1].generation));
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

TEST(Return, WhatFindsNoRoomIsForgottenByItsNode) {
  CoreFixture pool({.max_objects = 1, .max_partial_objects = 1});
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  SealedPart half[2] = {OldPart("c", 2, 3), OldPart("d", 3, 4)};
  for (SealedPart& part : half) {
    part.part_count = 2;
    part.object_bytes = 20;
  }
  pool.Inventory(n1, {OldPart("a", 0, 1), OldPart("b", 1, 2), half[0], half[1]});
  pool.Complete(n1);
  EXPECT_THAT(pool.Exists("a"), IsOk());
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, OldPart("b", 1, 2).generation)) << "there is no slot";
  EXPECT_FALSE(Names(frees, n1.id, half[0].generation));
  EXPECT_TRUE(Names(frees, n1.id, half[1].generation)) << "one object may be incomplete";
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

TEST(Return, ANodeWithOtherSegmentsOwesWhatItOwedInCommandsOfABoundedSize) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  std::vector<SealedPart> future(2 * kMaxFreesPerCommand + 1, OldPart("a", 0));
  for (uint32_t i = 0; i < future.size(); ++i) {
    future[i].generation = Generation::Of(Term{7}, 100 + i);  // forged
  }
  pool.Inventory(n1, future);
  pool.Disconnect(n1);
  RegisterNodeCommand changed = n1.description;
  changed.segments[0].capacity_bytes *= 2;
  pool.Advance(absl::Seconds(3));
  const NodeHandle back = pool.Register(changed);
  size_t told = 0;
  for (const FreeCommand& free : pool.TakeFrees()) {
    if (free.node != back.id) continue;
    EXPECT_LE(free.generations.size(), kMaxFreesPerCommand);
    told += free.generations.size();
  }
  EXPECT_EQ(told, future.size());
}

}  // namespace
}  // namespace moonpool::master
