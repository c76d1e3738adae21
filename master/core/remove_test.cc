// Remove: gone at once, and it does not come back (R6).
#include <string>
#include <vector>

#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;

TEST(Remove, IsGoneAtOnceAndDoneWhenTheHoldersConfirmed) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const NodeHandle n2 = pool.AddNode("n2", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10, {.replicas = 2});
  ASSERT_THAT(pool.Commit(grant), IsOk());
  const RemoveOutcome removed = pool.Remove("a");
  EXPECT_THAT(removed.status, IsOk());
  EXPECT_NE(removed.ticket, RemoveTicket{});
  EXPECT_THAT(pool.Get("a").status, Fails(StatusCode::kNotFound, ErrorReason::kRemoved));
  EXPECT_FALSE(pool.core.IsRemoveDone(removed.ticket));
  const Effects effects = pool.core.TakeEffects();
  ASSERT_EQ(effects.frees.size(), 2u);
  EXPECT_EQ(effects.frees[0].generations, std::vector<Generation>{grant.generation});
  EXPECT_EQ(pool.Remove("a").ticket, removed.ticket) << "repeated after a timeout";
  pool.Confirm(effects.frees[0]);
  EXPECT_FALSE(pool.core.IsRemoveDone(removed.ticket));
  pool.Confirm(effects.frees[1]);
  EXPECT_TRUE(pool.core.IsRemoveDone(removed.ticket));
  EXPECT_EQ(pool.core.TakeEffects().removes_done, std::vector<RemoveTicket>{removed.ticket});
  EXPECT_THAT(pool.Remove("a").status, Fails(StatusCode::kNotFound, ErrorReason::kRemoved));
}

TEST(Remove, OfABatchSendsEachNodeOneCommand) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  for (const char* key : {"a", "b", "c"}) ASSERT_THAT(pool.Put(key, 10), IsOk());
  const absl::string_view keys[] = {"a", "missing", "b", "c"};
  const auto outcomes = *pool.core.Remove(pool.Me(), keys, pool.now);
  EXPECT_THAT(outcomes[0].status, IsOk());
  EXPECT_THAT(outcomes[1].status, Fails(StatusCode::kNotFound, ErrorReason::kNeverStored));
  const auto frees = pool.TakeFrees();
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].generations.size(), 3u);
  pool.Confirm(frees[0]);
  EXPECT_EQ(pool.core.TakeEffects().removes_done.size(), 3u);
}

TEST(Remove, TheNodesAreToldWhichGrantsAreOpen) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const auto told_of_removed = [&](absl::string_view key) {
    EXPECT_THAT(pool.Remove(key).status, IsOk());
    FreeCommand last;
    for (const FreeCommand& free : pool.TakeFrees()) {
      pool.Confirm(free);
      last = free;
    }
    return last;
  };
  const Grant first = pool.Grab("first", 10);
  const Grant second = pool.Grab("second", 10);
  for (const char* key : {"a", "b", "c"}) ASSERT_THAT(pool.Put(key, 10), IsOk());
  const Grant last = pool.Grab("last", 10);
  FreeCommand free = told_of_removed("a");
  EXPECT_EQ(free.oldest_open, first.generation);
  EXPECT_EQ(free.newest, last.generation);
  ASSERT_THAT(pool.Commit(second), IsOk());
  EXPECT_EQ(told_of_removed("b").oldest_open, first.generation);
  ASSERT_THAT(pool.Abort(first), IsOk());
  EXPECT_EQ(told_of_removed("c").oldest_open, last.generation);
  pool.Advance(absl::Hours(1));  // its deadline
  free = told_of_removed("second");
  EXPECT_EQ(free.newest, last.generation);
  EXPECT_EQ(free.oldest_open, Generation{last.generation.value + 1}) << "none is open";
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Remove, ARepeatedCommandSaysWhatIsOpenNow) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  const Grant early = pool.Grab("early", 10);
  EXPECT_THAT(pool.Remove("a").status, IsOk());
  EXPECT_EQ(pool.TakeFrees().at(0).oldest_open, early.generation);
  ASSERT_THAT(pool.Commit(early), IsOk());
  const Grant late = pool.Grab("late", 10);
  pool.Disconnect(n1);
  pool.Register(n1.description);
  const auto again = pool.TakeFrees();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].oldest_open, late.generation);
  EXPECT_GE(again[0].newest, late.generation);
}

TEST(Remove, UnconfirmedBlocksTheReturnOfTheObject) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  pool.Disconnect(n1);
  const RemoveTicket ticket = pool.Remove("a").ticket;
  EXPECT_TRUE(pool.TakeFrees().empty()) << "nobody is there to be told";
  pool.Advance(absl::Seconds(60));
  EXPECT_FALSE(pool.core.IsRemoveDone(ticket));
  const NodeHandle back = pool.Register(n1.description);
  std::vector<FreeCommand> frees = pool.TakeFrees();
  ASSERT_EQ(frees.size(), 1u) << "it gets the command again";
  pool.Inventory(back, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok());
  for (const FreeCommand& again : pool.TakeFrees()) frees.push_back(again);
  for (const FreeCommand& free : frees) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Remove, ANewIncarnationConfirms) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  const RemoveTicket ticket = pool.Remove("a").ticket;
  pool.Disconnect(n1);
  RegisterNodeCommand description = n1.description;
  description.incarnation = Incarnation{2};
  pool.Register(description);
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
}

TEST(Remove, AForgottenNodeConfirms) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  const RemoveTicket ticket = pool.Remove("a").ticket;
  EXPECT_THAT(pool.core.ForgetNode("n1", pool.now), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(pool.core.ForgetNode("n2", pool.now), StatusIs(StatusCode::kNotFound));
  pool.Disconnect(n1);
  EXPECT_THAT(pool.core.ForgetNode("n1", pool.now), IsOk());
  EXPECT_TRUE(pool.core.IsRemoveDone(ticket));
  pool.Advance(absl::Seconds(1));
  EXPECT_TRUE(pool.core.ListNodes(pool.now).empty());
}

TEST(Remove, ACommandWithoutAnAnswerIsRepeated) {
  CoreFixture pool({.command_retry = absl::Seconds(5)});
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  pool.Remove("a");
  const auto first = pool.TakeFrees();
  pool.core.CommandResult(n1.id, n1.session, first[0].command_id, absl::UnavailableError("pinned"),
                          pool.now);
  pool.Advance(absl::Seconds(5));
  const auto second = pool.TakeFrees();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].command_id, first[0].command_id);
  pool.Confirm(second[0]);
  pool.Confirm(second[0]);
  pool.Advance(absl::Seconds(5));
  EXPECT_TRUE(pool.TakeFrees().empty());
}

TEST(Remove, OfALeasedObjectKeepsTheBytesUntilTheLeaseEnds) {
  CoreFixture pool({.max_lease = absl::Seconds(10), .leased_fraction = 1.0});
  pool.AddNode("n1", kBlock);
  const Grant grant = pool.Grab("a", kBlockPayload);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  ASSERT_GT(pool.Get("a", absl::Seconds(2)).location.lease, absl::ZeroDuration());
  const RemoveOutcome removed = pool.Remove("a");
  EXPECT_THAT(removed.status, IsOk());
  EXPECT_FALSE(pool.Exists("a").ok()) << "gone for new readers";
  EXPECT_TRUE(pool.TakeFrees().empty()) << "the node keeps it for the old ones";
  EXPECT_FALSE(pool.Put("b", kBlockPayload).ok());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  pool.Advance(absl::Seconds(2));
  const auto frees = pool.TakeFrees();
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].generations, std::vector<Generation>{grant.generation});
  EXPECT_THAT(pool.Put("b", kBlockPayload), IsOk());
  EXPECT_FALSE(pool.core.IsRemoveDone(removed.ticket));
  pool.Confirm(frees[0]);
  EXPECT_TRUE(pool.core.IsRemoveDone(removed.ticket));
}

TEST(Remove, OfAKeyThatIsBeingWrittenAbortsTheWriter) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  const RemoveOutcome removed = pool.Remove("a");
  EXPECT_THAT(removed.status, IsOk());
  EXPECT_THAT(pool.Commit(grant), Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
  pool.Report(n1, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok());
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(removed.ticket));
  pool.Report(n1, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok()) << "late news of it change nothing";
}

TEST(Remove, ThenPutAgainIsAnotherObject) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  pool.Remove("a");
  const Grant grant = pool.Grab("a", 20);
  pool.Report(n1, CoreFixture::Sealed("a", 20, grant, n1.id));
  EXPECT_EQ(pool.Get("a").location.size_bytes, 20u);
}

TEST(Remove, ReachesWhatANodeHasNotReportedYet) {
  CoreFixture pool;
  RegisterNodeCommand description = CoreFixture::Description("n1", {10 * kBlock});
  description.highest_term_seen = Term{5};
  const NodeHandle n1 = pool.Register(description);
  const RemoveOutcome removed = pool.Remove("a");
  EXPECT_THAT(removed.status, IsOk());
  EXPECT_NE(removed.ticket, RemoveTicket{});
  const SealedPart part{.generation = Generation::Of(Term{5}, 1),
                        .key = "a",
                        .extent = {SegmentId{0}, 0, 10 + kPartHeaderBytes},
                        .object_bytes = 10};
  pool.Inventory(n1, {part});
  EXPECT_FALSE(pool.Exists("a").ok());
  pool.Complete(n1);
  EXPECT_FALSE(pool.core.IsRemoveDone(removed.ticket));
  pool.Advance(absl::Seconds(3));
  for (const FreeCommand& free : pool.TakeFrees()) pool.Confirm(free);
  EXPECT_TRUE(pool.core.IsRemoveDone(removed.ticket));
}

TEST(Remove, TombstonesAreBounded) {
  CoreFixture pool({.max_tombstones = 1});
  pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10), IsOk());
  ASSERT_THAT(pool.Put("b", 10), IsOk());
  EXPECT_THAT(pool.Remove("a").status, IsOk());
  EXPECT_THAT(pool.Remove("b").status,
              Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_THAT(pool.Exists("b"), IsOk());
}

}  // namespace
}  // namespace moonpool::master
