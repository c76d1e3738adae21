// What nodes owe to forget: where dead generations may be that nobody knows of, and how that is
// bounded.
#include <string>
#include <vector>

#include "master/core/debt_table.h"
#include "master/core/testing/core_fixture.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

TEST(Owed, WhatIsNotListedIsForgottenAfterAnInventory) {
  CoreFixture pool({.max_debts = 1, .obituaries = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant stored = pool.Grab("c", 10);
  ASSERT_THAT(pool.Commit(stored), IsOk());
  const Grant a = pool.Grab("a", 10);
  const Grant b = pool.Grab("b", 10);
  ASSERT_THAT(pool.Abort(a), IsOk());
  ASSERT_THAT(pool.Abort(b), IsOk());
  pool.Advance(absl::Milliseconds(1));
  Effects effects = pool.core.TakeEffects();
  EXPECT_TRUE(effects.to_register.empty()) << "there would be no room in the list";
  for (const FreeCommand& free : effects.frees) pool.Confirm(free);
  pool.Advance(absl::Milliseconds(1));
  EXPECT_EQ(pool.core.TakeEffects().to_register, std::vector<NodeId>{n1.id});
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.inventories_retaken, 1u);

  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("c", 10, stored, n1.id));
  pool.Inventory(back, CoreFixture::Sealed("b", 10, b, n1.id));
  pool.Complete(back);
  EXPECT_THAT(pool.Exists("c"), IsOk()) << "nothing that lives is lost for it";
  EXPECT_FALSE(pool.Exists("b").ok());
  effects = pool.core.TakeEffects();
  EXPECT_TRUE(Names(effects.frees, n1.id, b.generation));
  for (const FreeCommand& free : effects.frees) pool.Confirm(free);
  pool.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(pool.core.TakeEffects().to_register.empty()) << "everything is listed";
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Owed, ARemovalWaitsForWhatIsNotListed) {
  CoreFixture pool({.max_debts = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  pool.Grab("a", 10);
  const Grant unlisted = pool.Grab("b", 10);
  pool.Disconnect(n1);
  pool.AddNode("n2", 10 * kBlock);
  pool.Advance(absl::Seconds(11));
  ASSERT_THAT(pool.Put("b", 10), IsOk());
  const RemoveTicket ticket = pool.Remove("b").ticket;
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket)) << "n1 would bring it to the next master";
  const NodeHandle broken = pool.Register(n1.description);
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket));
  pool.Disconnect(broken);
  ASSERT_THAT(pool.Put("b", 10), IsOk());
  const RemoveTicket again = pool.Remove("b").ticket;
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_FALSE(pool.core.IsRemoveDone(again)) << "its inventory has said nothing yet";
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("b", 10, unlisted, n1.id));
  pool.Complete(back);
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket));
  const auto frees = pool.TakeFrees();
  EXPECT_TRUE(Names(frees, n1.id, unlisted.generation));
  for (const FreeCommand& free : frees) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
  EXPECT_TRUE(pool.core.IsRemoveDone(again));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Owed, WhatANodeLostIsOwedByNoOther) {
  CoreFixture pool({.max_debts = 1, .obituaries = 1});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_THAT(pool.Put(key, 10), IsOk());
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  pool.Inventory(n2, {OldPart("old", 0)});
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  ASSERT_EQ(pool.core.GetStatus(pool.now).totals.lost, 4u);
  pool.Inventory(n2, {OldPart("older", 1)});
  pool.Complete(n2);
  EXPECT_THAT(pool.Exists("older"), IsOk()) << "n2 was away, and has nothing to do with that";
  pool.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(pool.core.TakeEffects().to_register.empty());
}

TEST(Owed, AReplicaThatAGrantLostIsForgottenWhereItTurnsUp) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const NodeHandle n2 = pool.AddNode("n2", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10, {.replicas = 2, .min_replicas = 1});
  pool.Disconnect(n2);
  pool.Advance(absl::Seconds(6));
  const NodeHandle back = pool.Register(n2.description);
  pool.Inventory(back, CoreFixture::Sealed("a", 10, grant, n2.id));
  pool.Complete(back);
  EXPECT_TRUE(Names(pool.TakeFrees(), n2.id, grant.generation))
      << "once the grant is over nobody would know of it";
  EXPECT_THAT(pool.Commit(grant), IsOk());
  EXPECT_THAT(pool.Exists("a"), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Owed, AReplicaThatWasNotWrittenIsForgotten) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  pool.AddNode("n2", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10, {.replicas = 2, .min_replicas = 1});
  ASSERT_THAT(pool.Commit(grant, {1}), IsOk());
  EXPECT_TRUE(Names(pool.TakeFrees(), grant.replicas[1].parts[0].node, grant.generation))
      << "the writer cannot know that it was not sealed";
}

TEST(Owed, AReplicaThatFindsNoRoomIsForgottenWhereTheObjectLives) {
  CoreFixture pool({.takeover_hold = absl::ZeroDuration()});
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  const NodeHandle n2 = pool.Register(OldNode("n2"));
  pool.Inventory(n1, {OldPart("a", 0, 1)});
  SealedPart replica = OldPart("a", 0, 1);
  replica.replica_index = 1;
  pool.Inventory(n2, {OldPart("b", 0, 2), replica});  // no node has this
  EXPECT_TRUE(Names(pool.TakeFrees(), n2.id, replica.generation)) << "when \"a\" goes it is not";
  EXPECT_THAT(pool.Exists("a"), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Owed, WhatIsOwedIsNotAdoptedBeforeTheNodeIsTold) {
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

TEST(Owed, APartThatItsNodeIsToForgetWaitsForNoOthers) {
  CoreFixture pool({.takeover_hold = absl::ZeroDuration()});
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

TEST(Owed, WhatFindsNoRoomIsForgottenByItsNode) {
  CoreFixture pool(
      {.takeover_hold = absl::ZeroDuration(), .max_objects = 1, .max_partial_objects = 1});
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

TEST(Owed, ANodeWithOtherSegmentsOwesWhatItOwedInCommandsOfABoundedSize) {
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
