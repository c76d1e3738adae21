// Grants that name no key when they are given, see core_spare.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/names.h"
#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kAborted = absl::StatusCode::kAborted;

class Spare : public testing::Test {
 protected:
  ~Spare() override { EXPECT_THAT(pool_.core.CheckInvariants(), IsOk()); }

  Totals totals() const { return pool_.core.GetStatus(pool_.now).totals; }
  uint64_t used_bytes() const { return pool_.core.GetStatus(pool_.now).used_bytes; }
  // What the node is told to forget.
  std::vector<Generation> TakeFreed() {
    std::vector<Generation> freed;
    for (const FreeCommand& command : pool_.TakeFrees()) {
      freed.insert(freed.end(), command.generations.begin(), command.generations.end());
      pool_.Confirm(command);
    }
    return freed;
  }

  CoreFixture pool_;
  NodeHandle node_ = pool_.AddNode("n1", 100 * kBlock);
};

TEST_F(Spare, ItsCommitStoresTheKeyThatItNames) {
  const Grant spare = pool_.Spare(kBlockPayload);
  ASSERT_THAT(spare.replicas, SizeIs(1));
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).spare_grants, 1u);
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).open_grants, 0u);
  EXPECT_EQ(used_bytes(), kBlock);
  EXPECT_THAT(pool_.Exists("k").code(), absl::StatusCode::kNotFound);

  const CommitOutcome committed = pool_.CommitAs("k", spare);
  EXPECT_THAT(committed.status, IsOk());
  const LocateOutcome found = pool_.Get("k");
  ASSERT_THAT(found.status, IsOk());
  EXPECT_EQ(found.location.generation, spare.generation);
  EXPECT_EQ(found.location.handle, committed.handle);
  EXPECT_EQ(found.location.size_bytes, kBlockPayload);
  EXPECT_EQ(found.location.replicas[0].parts, spare.replicas[0].parts);
  EXPECT_EQ(used_bytes(), kBlock);
  // A repeated one says the same.
  EXPECT_EQ(pool_.CommitAs("k", spare).handle, committed.handle);
  EXPECT_EQ(totals().puts_committed, 1u);
  EXPECT_EQ(totals().spares_used, 1u);
}

TEST_F(Spare, ItIsOneOfAChain) {
  EXPECT_THAT(pool_.CommitAs("child", pool_.Spare(100), {.parent = "root"}).status, IsOk());
  // The root is known already, as a key that is not stored.
  EXPECT_THAT(pool_.CommitAs("root", pool_.Spare(100)).status, IsOk());
  EXPECT_EQ(pool_.core.Why("", "child", pool_.now)->parent, "root");
  EXPECT_EQ(pool_.core.Why("", "root", pool_.now)->children, 1u);
}

TEST_F(Spare, TheFirstCommitWinsAndTheOtherIsForgotten) {
  const Grant first = pool_.Spare(kBlockPayload);
  const Grant second = pool_.Spare(kBlockPayload);
  EXPECT_THAT(pool_.CommitAs("k", second).status, IsOk());
  const CommitOutcome refused = pool_.CommitAs("k", first);
  EXPECT_THAT(refused.status, Fails(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  EXPECT_EQ(refused.existing_generation, second.generation);
  EXPECT_EQ(used_bytes(), kBlock);
  // Its node has it, and the next master would take it. Until the node has confirmed, that is said.
  EXPECT_TRUE(refused.is_pending);
  EXPECT_THAT(TakeFreed(), ElementsAre(first.generation));
  EXPECT_FALSE(pool_.CommitAs("k", first).is_pending);
  EXPECT_EQ(pool_.CommitAs("k", first).existing_generation, second.generation);
  EXPECT_EQ(pool_.Get("k").location.generation, second.generation);
}

TEST_F(Spare, AKeyThatIsBeingWrittenIsTaken) {
  const Grant other = pool_.Grab("k", 100);
  const Grant spare = pool_.Spare(100);
  EXPECT_THAT(pool_.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kBeingWritten));
  EXPECT_THAT(TakeFreed(), ElementsAre(spare.generation));
  EXPECT_THAT(pool_.Commit(other), IsOk());
}

TEST_F(Spare, ItIsBoundToNothingOfWhichSomethingNewerIsKnown) {
  const Grant old = pool_.Spare(100);
  EXPECT_THAT(pool_.Put("removed", 100), IsOk());
  EXPECT_THAT(pool_.Remove("removed").status, IsOk());
  TakeFreed();
  EXPECT_THAT(pool_.CommitAs("removed", old).status, Fails(kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool_.Exists("removed").code(), absl::StatusCode::kNotFound);
  // Also where there was nothing to remove.
  const Grant older = pool_.Spare(100);
  EXPECT_THAT(pool_.Remove("never").status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(pool_.CommitAs("never", older).status, Fails(kAborted, ErrorReason::kGrantAborted));
  EXPECT_EQ(totals().spares_refused, 2u);
  EXPECT_THAT(pool_.CommitAs("never", pool_.Spare(100)).status, IsOk());
}

TEST_F(Spare, AnAttemptThatWasGivenUpLaterIsNewer) {
  const Grant old = pool_.Spare(100);
  EXPECT_THAT(pool_.Abort(pool_.Grab("k", 100)), IsOk());
  EXPECT_THAT(pool_.CommitAs("k", old).status, Fails(kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool_.CommitAs("k", pool_.Spare(100)).status, IsOk());
}

TEST_F(Spare, WhatIsForgottenOfOtherKeysCounts) {
  CoreFixture pool(CoreOptions{.obituaries = 1});
  pool.AddNode("n1", 100 * kBlock);
  const Grant old = pool.Spare(100);
  EXPECT_THAT(pool.Abort(pool.Grab("k", 100)), IsOk());
  EXPECT_THAT(pool.Abort(pool.Grab("another", 100)), IsOk());  // takes the place of its obituary
  pool.TakeFrees();
  EXPECT_THAT(pool.CommitAs("k", old).status, Fails(kAborted, ErrorReason::kGrantAborted));
}

TEST_F(Spare, ASealReportBindsIt) {
  const Grant spare = pool_.Spare(100, {.replicas = 1});
  pool_.Report(node_, CoreFixture::Sealed("k", 100, spare, node_.id, "root"));
  EXPECT_EQ(pool_.Get("k").location.generation, spare.generation);
  EXPECT_EQ(pool_.core.Why("", "k", pool_.now)->parent, "root");
  EXPECT_THAT(pool_.CommitAs("k", spare).status, IsOk());
  EXPECT_EQ(totals().puts_committed, 1u);
}

TEST_F(Spare, OneReportOfTwoMakesItAGrantOfTheKey) {
  const NodeHandle other = pool_.AddNode("n2", 100 * kBlock);
  const Grant spare = pool_.Spare(100, {.replicas = 2});
  pool_.Report(node_, CoreFixture::Sealed("k", 100, spare, node_.id));
  EXPECT_EQ(pool_.core.Why("", "k", pool_.now)->state, "being_written");
  EXPECT_THAT(pool_.Start("k", 100).status, Fails(kAborted, ErrorReason::kBeingWritten));
  // So a removal knows of it.
  EXPECT_NE(pool_.Remove("k").ticket, RemoveTicket{});
  EXPECT_THAT(TakeFreed(), ElementsAre(spare.generation, spare.generation));
  EXPECT_THAT(pool_.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kGrantAborted));
  pool_.Report(other, CoreFixture::Sealed("k", 100, spare, other.id));
  EXPECT_THAT(pool_.Exists("k").code(), absl::StatusCode::kNotFound);
}

TEST_F(Spare, AReportOfAKeyThatIsTakenEndsIt) {
  EXPECT_THAT(pool_.Put("k", 200), IsOk());
  const Grant spare = pool_.Spare(100);
  pool_.Report(node_, CoreFixture::Sealed("k", 100, spare, node_.id));
  EXPECT_THAT(TakeFreed(), ElementsAre(spare.generation));
  EXPECT_THAT(pool_.CommitAs("k", spare).status,
              Fails(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
}

TEST_F(Spare, AnInventoryBindsItToo) {
  const Grant spare = pool_.Spare(100);
  pool_.Disconnect(node_);
  node_ = pool_.Register(node_.description);
  pool_.Inventory(node_, CoreFixture::Sealed("k", 100, spare, node_.id));
  pool_.Complete(node_);
  pool_.Advance(absl::Milliseconds(10));
  EXPECT_EQ(pool_.Get("k").location.generation, spare.generation);
}

TEST_F(Spare, AReportOfAnotherPlaceOrSizeBindsNothing) {
  const Grant spare = pool_.Spare(100);
  std::vector<SealedPart> forged = CoreFixture::Sealed("k", 100, spare, node_.id);
  forged[0].extent.offset += 4096;
  pool_.Report(node_, forged);
  pool_.Report(node_, CoreFixture::Sealed("k", 36, spare, node_.id));
  EXPECT_THAT(pool_.Exists("k").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(totals().spares_used, 0u);
}

TEST_F(Spare, ItsDeadlineEndsItAndALateReportIsRefused) {
  const Grant spare = pool_.Spare(kBlockPayload);
  EXPECT_LE(spare.remaining, absl::Seconds(5));
  pool_.Advance(spare.remaining);
  EXPECT_EQ(used_bytes(), 0u);
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).spare_grants, 0u);
  EXPECT_THAT(pool_.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kGrantAborted));
  pool_.Report(node_, CoreFixture::Sealed("k", kBlockPayload, spare, node_.id));
  EXPECT_THAT(pool_.Exists("k").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(TakeFreed(), ElementsAre(spare.generation));
}

TEST_F(Spare, GivenBackItIsFreeAtOnceAndForgottenWhereAKeyIsNamed) {
  const Grant unused = pool_.Spare(kBlockPayload);
  EXPECT_THAT(pool_.Abort(unused), IsOk());
  EXPECT_EQ(used_bytes(), 0u);
  EXPECT_THAT(TakeFreed(), IsEmpty());
  const Grant used = pool_.Spare(kBlockPayload);
  EXPECT_THAT(pool_.Abort(used,
                          used.replicas[0].parts[0].node == node_.id
                              ? std::vector<Part>{used.replicas[0].parts[0]}
                              : std::vector<Part>{},
                          "k"),
              IsOk());
  EXPECT_EQ(used_bytes(), kBlock);  // pinned
  EXPECT_THAT(TakeFreed(), ElementsAre(used.generation));
  pool_.Advance(absl::Seconds(1));
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(Spare, OnceItHasItsKeyItIsAbortedUnderThat) {
  const NodeHandle other = pool_.AddNode("n2", 100 * kBlock);
  const Grant spare = pool_.Spare(100, {.replicas = 2});
  pool_.Report(node_, CoreFixture::Sealed("k", 100, spare, node_.id));
  EXPECT_THAT(pool_.Abort(spare, {}, "k"), IsOk());
  EXPECT_THAT(pool_.Exists("k"), Fails(absl::StatusCode::kNotFound, ErrorReason::kGrantAborted));
}

TEST_F(Spare, TheLossOfANodeEndsThoseThatNeedIt) {
  pool_.AddNode("n2", 100 * kBlock);
  const Grant spare = pool_.Spare(100, {.replicas = 2});
  pool_.Disconnect(node_);
  pool_.Advance(absl::Seconds(4));
  RegisterNodeCommand empty = node_.description;
  empty.incarnation = Incarnation{2};
  pool_.Register(empty);
  pool_.Advance(absl::Milliseconds(10));
  EXPECT_THAT(pool_.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kGrantAborted));
}

TEST_F(Spare, AnotherClientsIsNotCommitted) {
  const Grant spare = pool_.Spare(100, {.client_id = 2});
  EXPECT_THAT(pool_.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool_.Abort(spare), IsOk());  // and not ended
  EXPECT_THAT(pool_.CommitAs("k", spare, {.client_id = 2}).status, IsOk());
}

TEST_F(Spare, WithoutAKeyItIsNoPut) {
  const Grant spare = pool_.Spare(100);
  EXPECT_THAT(pool_.Commit(spare), Fails(kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool_.core.ListObjects({}, pool_.now)->objects, IsEmpty());
}

TEST_F(Spare, ABadKeyIsRefusedAsAStartWouldRefuseIt) {
  EXPECT_THAT(pool_.CommitAs(std::string(kMaxKeyBytes + 1, 'k'), pool_.Spare(100)).status,
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong));
  EXPECT_THAT(pool_.CommitAs("k", pool_.Spare(100), {.parent = "k"}).status,
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

TEST_F(Spare, AClientHasFew) {
  EXPECT_THAT(pool_.Spares(100, 100), SizeIs(kMaxSparesPerClient));
  EXPECT_THAT(pool_.Spares(100, 1), IsEmpty());
  EXPECT_THAT(pool_.Spares(100, 1, {.client_id = 2}), SizeIs(1));
  pool_.Advance(absl::Seconds(5));
  EXPECT_THAT(pool_.Spares(100, 100), SizeIs(kMaxSparesPerClient));
}

TEST_F(Spare, TogetherTheyHaveAFractionOfWhatIsFree) {
  uint64_t count = 0;
  for (uint64_t client = 1; client <= 20; ++client) {
    count += pool_.Spares(kBlockPayload, 8, {.client_id = client}).size();
  }
  EXPECT_EQ(count, 5u);  // of 95 blocks that are free then
}

TEST_F(Spare, WhereSpaceIsShortThereAreNone) {
  for (int i = 0; i < 89; ++i) EXPECT_THAT(pool_.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  EXPECT_THAT(pool_.Spares(100, 1), IsEmpty());
  EXPECT_EQ(totals().evicted, 0u);
  EXPECT_THAT(pool_.Remove("k0").status, IsOk());
  EXPECT_THAT(pool_.Remove("k1").status, IsOk());
  EXPECT_THAT(pool_.Spares(100, 1), SizeIs(1));
}

TEST_F(Spare, MoreReplicasThanNodesOrPartsAreNotPromised) {
  EXPECT_THAT(pool_.Spares(100, 1, {.replicas = 2}), IsEmpty());
  EXPECT_THAT(pool_.Spares(100, 1, {.replicas = 9}), IsEmpty());
  EXPECT_THAT(pool_.Spares(UINT64_MAX, 1), IsEmpty());
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(Spare, ANodeThatIsDrainedGivesNone) {
  const Grant spare = pool_.Spare(100);
  EXPECT_THAT(pool_.core.DrainNode("n1", /*cancel=*/false, pool_.now), IsOk());
  EXPECT_THAT(pool_.Spares(100, 1), IsEmpty());
  EXPECT_THAT(pool_.CommitAs("k", spare).status, IsOk());  // it was out
}

TEST_F(Spare, OfTheMasterBeforeIsNoneOfThisOne) {
  const Grant spare = pool_.Spare(100);
  CoreFixture next({}, Term{8});
  const NodeHandle node = next.AddNode("n1", 100 * kBlock);
  EXPECT_THAT(next.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kGrantAborted));
  // Another master has the key meanwhile, and what was sealed is on its way: nothing is said yet.
  EXPECT_THAT(next.Put("k", 100), IsOk());
  EXPECT_THAT(next.CommitAs("k", spare).status, Fails(kAborted, ErrorReason::kGrantAborted));
}

TEST_F(Spare, WhatWasSealedIsTakenByTheNextMasterAndItsCommitIsGood) {
  const Grant spare = pool_.Spare(100);
  CoreFixture next({}, Term{8});
  const NodeHandle node = next.Register(CoreFixture::Description("n1", {100 * kBlock}));
  next.Inventory(node, CoreFixture::Sealed("k", 100, spare, node.id));
  next.Complete(node);
  EXPECT_THAT(next.CommitAs("k", spare).status, IsOk());
}

// Of a namespace that was opened with another layout: bound to nothing, and committed by nobody.
TEST_F(Spare, WhatIsOfAnotherLayoutIsForgotten) {
  ASSERT_THAT(pool_.core.OpenNamespace("ns", "A", pool_.now), IsOk());
  const Grant spare = pool_.Spare(100);
  std::vector<SealedPart> sealed = CoreFixture::Sealed("k", 100, spare, node_.id);
  const std::string other = JoinPartNamespace({"ns", "B"});
  sealed[0].name_space = other;
  pool_.Report(node_, sealed);
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).open_grants, 0u);
  EXPECT_THAT(TakeFreed(), ElementsAre(spare.generation));
  EXPECT_EQ(totals().spares_used, 0u);
}

}  // namespace
}  // namespace moonpool::master
