// Nodes come, go and come back; what they report (R3, R5, R9, R11, R13).
#include <string>
#include <vector>

#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Not;

std::vector<SealedPart> Together(std::vector<SealedPart> a, const std::vector<SealedPart>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Register, BadDescriptionsAreRefused) {
  CoreFixture pool;
  const auto is_refused = [&](const RegisterNodeCommand& command) {
    EXPECT_THAT(pool.core.RegisterNode(command, pool.now),
                Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  };
  is_refused(CoreFixture::Description("", {kBlock}));
  is_refused(CoreFixture::Description("n", {}));
  is_refused(CoreFixture::Description("n", {~uint64_t{0}}));
  is_refused(CoreFixture::Description("n", {kBlock}, "", "", 0));
  RegisterNodeCommand twice = CoreFixture::Description("n", {kBlock, kBlock});
  twice.segments[1].segment = SegmentId{0};
  is_refused(twice);
}

TEST(Register, TheNumberOfNodesIsBounded) {
  CoreFixture pool({.max_nodes = 2});
  pool.AddNode("n1", kBlock);
  pool.AddNode("n2", kBlock);
  EXPECT_THAT(pool.core.RegisterNode(CoreFixture::Description("n3", {kBlock}), pool.now),
              Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
}

TEST(Register, ALostNodeThatHoldsNothingMakesRoom) {
  CoreFixture pool({.max_nodes = 2});
  pool.Disconnect(pool.AddNode("n1", kBlock));
  pool.Advance(absl::Seconds(1));
  pool.Disconnect(pool.AddNode("n2", kBlock));
  pool.Advance(absl::Seconds(60));
  EXPECT_EQ(pool.core.GetStatus(pool.now).capacity_bytes, 0u);
  pool.AddNode("n3", kBlock);
  ASSERT_EQ(pool.core.ListNodes(pool.now).size(), 2u);
  EXPECT_EQ(pool.core.ListNodes(pool.now)[0].address.name, "n2") << "the oldest went";
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Register, ATermFromAnOlderMasterIsOvertaken) {
  CoreFixture pool({}, Term{3});
  RegisterNodeCommand description = CoreFixture::Description("n1", {kBlock});
  description.highest_term_seen = Term{3};
  const Registration first = *pool.core.RegisterNode(description, pool.now);
  EXPECT_EQ(first.term, Term{4}) << "an older master may have given generations of term 3";
  description.highest_term_seen = Term{4};
  EXPECT_EQ(pool.core.RegisterNode(description, pool.now)->term, Term{4}) << "that one is ours";
}

TEST(Register, TwoDaemonsOfOneNameAreOneTooMany) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", kBlock);
  const auto other = CoreFixture::Description("n1", {kBlock}, "", "", 2);
  EXPECT_THAT(pool.core.RegisterNode(other, pool.now), StatusIs(StatusCode::kFailedPrecondition));
  pool.Disconnect(n1);
  EXPECT_TRUE(pool.core.RegisterNode(other, pool.now).ok());
}

TEST(Register, ANewSessionOfTheSameIncarnationReplacesTheOldOne) {
  CoreFixture pool;
  const NodeHandle old = pool.AddNode("n1", kBlock);
  const NodeHandle fresh = pool.Register(old.description);
  EXPECT_EQ(fresh.id, old.id);
  EXPECT_NE(fresh.session, old.session);
  pool.Disconnect(old);  // late news of the old one
  EXPECT_EQ(pool.core.GetStatus(pool.now).nodes_up, 1u);
  pool.Complete(old);
  EXPECT_THAT(pool.Put("a", 1), StatusIs(StatusCode::kUnavailable));
  pool.Complete(fresh);
  EXPECT_THAT(pool.Put("a", 1), IsOk());
}

TEST(Away, ReplicasAreNotOfferedAndComeBackWithTheNode) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  pool.Disconnect(n1);
  EXPECT_THAT(pool.Get("a").status, Fails(StatusCode::kUnavailable, ErrorReason::kNodeLost));
  EXPECT_THAT(pool.Exists("a"), Fails(StatusCode::kUnavailable, ErrorReason::kNodeLost));
  EXPECT_THAT(pool.Put("b", 10), Fails(StatusCode::kUnavailable, ErrorReason::kNoNodes));
  pool.Advance(absl::Seconds(4));
  const NodeHandle back = pool.Register(n1.description);
  EXPECT_EQ(back.id, n1.id);
  EXPECT_THAT(pool.Get("a").status, IsOk()) << "readable before its inventory is complete";
  pool.Inventory(back, CoreFixture::Sealed("a", 10, grant, n1.id));
  pool.Complete(back);
  pool.Advance(absl::Seconds(60));
  EXPECT_THAT(pool.Get("a").status, IsOk());
}

TEST(Away, AnotherReplicaServes) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const NodeHandle n2 = pool.AddNode("n2", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 10, {.replicas = 2}), IsOk());
  pool.Disconnect(n1);
  const LocateOutcome found = pool.Get("a");
  ASSERT_THAT(found.status, IsOk());
  ASSERT_EQ(found.location.replicas.size(), 1u);
  EXPECT_EQ(found.location.replicas[0].parts[0].node, n2.id);
  pool.Advance(absl::Seconds(6));
  EXPECT_EQ(pool.Get("a").location.replicas.size(), 1u);
  EXPECT_EQ(pool.core.Why("", "a", pool.now)->replicas.size(), 1u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Lost, ObjectsGoInSlicesAndSayWhy) {
  CoreFixture pool({.work_per_tick = 10});
  const NodeHandle n1 = pool.AddNode("n1", 100 * kBlock);
  for (int i = 0; i < 50; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), 10), IsOk());
  pool.Disconnect(n1);
  pool.now += absl::Seconds(5);
  EXPECT_TRUE(pool.core.Tick(pool.now)) << "there is more to do";
  EXPECT_EQ(pool.core.GetStatus(pool.now).objects, 40u);
  EXPECT_THAT(pool.Get("k0").status, StatusIs(StatusCode::kNotFound)) << "dropped or not";
  pool.Advance(absl::ZeroDuration());
  EXPECT_EQ(pool.core.GetStatus(pool.now).objects, 0u);
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.lost, 50u);
  EXPECT_THAT(pool.Exists("k9"), Fails(StatusCode::kNotFound, ErrorReason::kNodeLost));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Lost, ANewIncarnationBringsNothingBack) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 4 * kBlock);
  for (int i = 0; i < 4; ++i) ASSERT_THAT(pool.Put(absl::StrCat("k", i), kBlockPayload), IsOk());
  pool.Disconnect(n1);
  RegisterNodeCommand description = n1.description;
  description.incarnation = Incarnation{2};
  const NodeHandle fresh = pool.Register(description);
  EXPECT_NE(fresh.id, n1.id);
  EXPECT_FALSE(pool.Get("k0").status.ok());
  pool.Complete(fresh);
  EXPECT_THAT(pool.Put("k1", kBlockPayload), IsOk()) << "at once, before the old ones are swept";
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  pool.Advance(absl::Milliseconds(1));
  EXPECT_EQ(pool.core.GetStatus(pool.now).objects, 1u);
  EXPECT_EQ(pool.core.AddressOf(n1.id), std::nullopt);
  EXPECT_EQ(pool.core.AddressOf(fresh.id)->incarnation, Incarnation{2});
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Lost, AGrantLosesItsReplicaAndPerhapsItsLife) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 4 * kBlock);
  pool.AddNode("n2", 4 * kBlock);
  const Grant weak = pool.Grab("weak", 10, {.replicas = 2, .min_replicas = 1});
  const Grant strict = pool.Grab("strict", 10, {.replicas = 2});
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  EXPECT_THAT(pool.Commit(weak), IsOk());
  EXPECT_EQ(pool.Get("weak").location.replicas.size(), 1u);
  EXPECT_THAT(pool.Commit(strict), Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Lost, ObjectsReturnWithTheSameIncarnation) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 4 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  pool.Disconnect(n1);
  pool.Advance(absl::Seconds(6));
  EXPECT_FALSE(pool.Exists("a").ok());
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_THAT(pool.Exists("a"), IsOk());
  EXPECT_EQ(pool.Get("a").location.generation, grant.generation);
}

TEST(Reconcile, WhatTheInventoryLacksIsDropped) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant kept = pool.Grab("kept", 10);
  const Grant gone = pool.Grab("gone", 10);
  const Grant open = pool.Grab("open", 10);
  ASSERT_THAT(pool.Commit(kept), IsOk());
  ASSERT_THAT(pool.Commit(gone), IsOk());
  const NodeHandle back = pool.Register(n1.description);
  pool.Inventory(back, CoreFixture::Sealed("kept", 10, kept, n1.id));
  // Sealed after the inventory had passed its place.
  const Grant late = open;
  EXPECT_THAT(pool.Commit(late), IsOk());
  pool.Complete(back);
  pool.Advance(absl::Milliseconds(1));
  EXPECT_THAT(pool.Exists("kept"), IsOk());
  EXPECT_THAT(pool.Exists("open"), IsOk());
  EXPECT_THAT(pool.Exists("gone"), Fails(StatusCode::kNotFound, ErrorReason::kNodeLost));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Seal, ReportsOfAllPartsAreTheCommit) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const NodeHandle n2 = pool.AddNode("n2", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10, {.replicas = 2, .min_replicas = 1});
  pool.Report(n1, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_THAT(pool.Exists("a"), Fails(StatusCode::kNotFound, ErrorReason::kBeingWritten));
  pool.Report(n1, CoreFixture::Sealed("a", 10, grant, n1.id));
  pool.Report(n2, CoreFixture::Sealed("a", 10, grant, n2.id));
  EXPECT_EQ(pool.Get("a").location.replicas.size(), 2u);
  EXPECT_THAT(pool.Commit(grant), IsOk());
  EXPECT_EQ(pool.core.GetStatus(pool.now).totals.puts_committed, 1u);
}

TEST(Seal, AtTheDeadlineTheLeastNumberIsEnough) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  pool.AddNode("n2", 10 * kBlock);
  const Grant weak = pool.Grab("weak", 10, {.replicas = 2, .min_replicas = 1});
  const Grant strict = pool.Grab("strict", 10, {.replicas = 2});
  pool.Report(n1, CoreFixture::Sealed("weak", 10, weak, n1.id));
  pool.Report(n1, CoreFixture::Sealed("strict", 10, strict, n1.id));
  pool.Advance(absl::Seconds(10));
  EXPECT_EQ(pool.Get("weak").location.replicas.size(), 1u);
  EXPECT_THAT(pool.Exists("strict"), Fails(StatusCode::kNotFound, ErrorReason::kExpired));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Seal, OfAnAbortedGrantIsForgottenAtTheNode) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 10);
  ASSERT_THAT(pool.Abort(grant), IsOk());
  const auto first = pool.TakeFrees();
  ASSERT_EQ(first.size(), 1u) << "it may have been sealed";
  pool.Confirm(first[0]);
  pool.Report(n1, CoreFixture::Sealed("a", 10, grant, n1.id));
  EXPECT_FALSE(pool.Exists("a").ok());
  const auto frees = pool.TakeFrees();
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].generations, std::vector<Generation>{grant.generation});
  pool.Confirm(frees[0]);
}

TEST(Seal, NonsenseIsIgnored) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const SealedPart good{.generation = Generation{5},
                        .key = "a",
                        .extent = {SegmentId{0}, 0, 10 + kPartHeaderBytes},
                        .object_bytes = 10};
  std::vector<SealedPart> parts(10, good);
  parts[0].extent.segment = SegmentId{1};
  parts[1].extent.offset = ~uint64_t{0} - 63;
  parts[2].extent.length = ~uint64_t{0};
  parts[3].extent.length = 10;
  parts[4].key = "";
  parts[5].part_count = 0;
  parts[6].part_index = 1;
  parts[7].replica_index = 200;
  parts[8].generation = Generation{0};
  parts[9].name_space = "bad name";
  pool.Report(n1, parts);
  EXPECT_EQ(pool.core.GetStatus(pool.now).objects, 0u);
  EXPECT_EQ(pool.core.GetStatus(pool.now).used_bytes, 0u);
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Seal, AGenerationThatWasNeverGrantedIsForgedWhateverTheReport) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const NodeHandle n2 = pool.Register(CoreFixture::Description("n2", {10 * kBlock}));
  Grant forged = pool.Grab("a", 10);
  forged.generation.value += 1;
  forged.replicas[0].parts[0].node = n2.id;
  const std::vector<SealedPart> parts = CoreFixture::Sealed("b", 10, forged, n2.id);
  ASSERT_EQ(parts.size(), 1u);
  pool.Inventory(n2, parts);
  pool.Report(n2, parts);
  EXPECT_FALSE(pool.Exists("b").ok());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  EXPECT_EQ(pool.Grab("c", 10).generation, forged.generation) << "the number is the next grant's";
}

// A master that knows nothing meets nodes that hold what an older one left.
class Recovery : public testing::Test {
 protected:
  // A grant as the older master, of term 5, gave it.
  Grant OldGrant(uint32_t counter, std::vector<Part> parts) {
    Grant grant{.generation = Generation::Of(Term{5}, counter)};
    grant.replicas.emplace_back();
    grant.replicas[0].parts.assign(parts.begin(), parts.end());
    return grant;
  }
  static Part At(NodeId node, uint64_t block, uint64_t payload) {
    return Part{node, {SegmentId{0}, block * kBlock, payload + kPartHeaderBytes}};
  }
  static RegisterNodeCommand OldNode(const std::string& name) {
    RegisterNodeCommand description = CoreFixture::Description(name, {10 * kBlock});
    description.highest_term_seen = Term{5};
    return description;
  }

  CoreFixture pool_;
};

TEST_F(Recovery, ObjectsAreReadableAsTheirInventoryArrives) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  pool_.Inventory(n1, CoreFixture::Sealed("a", 10, OldGrant(1, {At(n1.id, 3, 10)}), n1.id, "p"));
  const LocateOutcome found = pool_.Get("a");
  ASSERT_THAT(found.status, IsOk());
  EXPECT_EQ(found.location.generation, Generation::Of(Term{5}, 1));
  EXPECT_EQ(found.location.replicas[0].parts[0], At(n1.id, 3, 10));
  EXPECT_EQ(pool_.core.Why("", "a", pool_.now)->parent, "p");
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).totals.adopted, 1u);
  pool_.Complete(n1);
  const Grant grant = pool_.Grab("b", kBlockPayload);
  EXPECT_GT(grant.generation, found.location.generation);
  EXPECT_NE(grant.replicas[0].parts[0].extent.offset, 3 * kBlock);
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, AStripedObjectNeedsAllItsParts) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const NodeHandle n2 = pool_.Register(OldNode("n2"));
  const Grant grant = OldGrant(1, {At(n1.id, 0, 100), At(n2.id, 1, 100), At(n1.id, 2, 50)});
  pool_.Inventory(n1, CoreFixture::Sealed("a", 250, grant, n1.id));
  EXPECT_FALSE(pool_.Exists("a").ok());
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
  pool_.Inventory(n2, CoreFixture::Sealed("a", 250, grant, n2.id));
  const LocateOutcome found = pool_.Get("a");
  ASSERT_THAT(found.status, IsOk());
  EXPECT_EQ(found.location.replicas[0].parts, grant.replicas[0].parts) << "in object order";
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, PartsThatStayAloneAreGivenUp) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const Grant grant = OldGrant(1, {At(n1.id, 0, 100), At(NodeId{9999}, 1, 100)});
  pool_.Inventory(n1, CoreFixture::Sealed("a", 200, grant, n1.id));
  pool_.Complete(n1);
  EXPECT_GT(pool_.core.GetStatus(pool_.now).used_bytes, 0u);
  pool_.Advance(absl::Seconds(61));
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).used_bytes, 0u);
  EXPECT_EQ(pool_.TakeFrees().size(), 1u);
}

TEST_F(Recovery, TheHighestGenerationWins) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const NodeHandle n2 = pool_.Register(OldNode("n2"));
  const Grant older = OldGrant(1, {At(n1.id, 0, 10)});
  const Grant newer = OldGrant(2, {At(n2.id, 0, 10)});
  pool_.Advance(absl::Seconds(61));  // no lease of an older leader can be left
  pool_.Inventory(n1, CoreFixture::Sealed("a", 10, older, n1.id));
  pool_.Inventory(n2, CoreFixture::Sealed("a", 10, newer, n2.id));
  EXPECT_EQ(pool_.Get("a").location.generation, newer.generation);
  std::vector<FreeCommand> frees = pool_.TakeFrees();
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].node, n1.id);
  EXPECT_EQ(frees[0].generations, std::vector<Generation>{older.generation});
  pool_.Inventory(n1, CoreFixture::Sealed("a", 10, older, n1.id));
  EXPECT_EQ(pool_.Get("a").location.generation, newer.generation);
  EXPECT_TRUE(pool_.TakeFrees().empty()) << "the command is on its way";
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, ReplicasOfOneGenerationComeTogether) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const NodeHandle n2 = pool_.Register(OldNode("n2"));
  Grant grant = OldGrant(1, {At(n1.id, 0, 100), At(n1.id, 1, 100)});
  grant.replicas.emplace_back();
  grant.replicas[1].parts = {At(n2.id, 4, 100), At(n2.id, 5, 100)};
  pool_.Inventory(n1, CoreFixture::Sealed("a", 200, grant, n1.id));
  EXPECT_EQ(pool_.Get("a").location.replicas.size(), 1u);
  pool_.Inventory(n2, CoreFixture::Sealed("a", 200, grant, n2.id));
  EXPECT_EQ(pool_.Get("a").location.replicas.size(), 2u);
  pool_.Inventory(n2, CoreFixture::Sealed("a", 200, grant, n2.id));
  EXPECT_EQ(pool_.Get("a").location.replicas.size(), 2u) << "the same parts again";
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, AnInventoryBeatsTheGrantThatCameBeforeIt) {
  pool_.AddNode("n0", 10 * kBlock);
  const Grant early = pool_.Grab("a", 10);
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const Grant older = OldGrant(1, {At(n1.id, 0, 10)});
  pool_.Inventory(n1, CoreFixture::Sealed("a", 10, older, n1.id));
  EXPECT_EQ(pool_.Get("a").location.generation, older.generation);
  EXPECT_THAT(pool_.Commit(early), Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, ANewerOneFromAnInventoryLeavesLeasedBytesAlone) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  pool_.Inventory(n1, CoreFixture::Sealed("a", 10, OldGrant(1, {At(n1.id, 3, 10)}), n1.id));
  pool_.Complete(n1);
  pool_.Advance(absl::Minutes(1));
  const LocateOutcome held = pool_.Get("a", absl::Seconds(2));
  ASSERT_GT(held.location.lease, absl::ZeroDuration());
  pool_.TakeFrees();
  const NodeHandle n2 = pool_.Register(OldNode("n2"));
  pool_.Inventory(n2, CoreFixture::Sealed("a", 10, OldGrant(2, {At(n2.id, 0, 10)}), n2.id));
  EXPECT_EQ(pool_.Get("a").location.generation, Generation::Of(Term{5}, 2));
  EXPECT_TRUE(pool_.TakeFrees().empty()) << "the reader counts on the bytes";
  EXPECT_GT(pool_.core.GetStatus(pool_.now).condemned_bytes, 0u);
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
  pool_.Advance(absl::Seconds(3));
  EXPECT_EQ(pool_.core.GetStatus(pool_.now).condemned_bytes, 0u);
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, WhatAnOlderLeaderMayHaveLeasedIsLeftAlone) {
  CoreFixture pool({.max_lease = absl::Seconds(10)});
  const NodeHandle n1 = pool.Register(CoreFixture::Description("n1", {kBlock}));
  const Grant old = OldGrant(1, {At(n1.id, 0, kBlockPayload)});
  pool.Inventory(n1, CoreFixture::Sealed("a", kBlockPayload, old, n1.id));
  pool.Complete(n1);
  EXPECT_THAT(pool.Put("b", kBlockPayload),
              Fails(StatusCode::kResourceExhausted, ErrorReason::kNoSpace));
  const uint64_t before = pool.core.change_count();
  pool.Advance(absl::Seconds(10));
  EXPECT_NE(pool.core.change_count(), before) << "who waits for space is told";
  EXPECT_THAT(pool.Put("b", kBlockPayload), IsOk());
}

TEST_F(Recovery, WhileNothingIsEvictedStatusAndWhySaySo) {
  CoreFixture pool({.max_lease = absl::Seconds(10)});
  const NodeHandle n1 = pool.Register(CoreFixture::Description("n1", {kBlock}));
  EXPECT_EQ(pool.core.GetStatus(pool.now).takeover, absl::ZeroDuration()) << "nothing is adopted";
  const Grant old = OldGrant(1, {At(n1.id, 0, kBlockPayload)});
  pool.Inventory(n1, CoreFixture::Sealed("a", kBlockPayload, old, n1.id));
  pool.Complete(n1);
  pool.Advance(absl::Seconds(4));
  const auto why = [&](absl::string_view key) {
    return pool.core.Why("", key, pool.now)->explanation;
  };
  EXPECT_EQ(pool.core.GetStatus(pool.now).takeover, absl::Seconds(6));
  EXPECT_EQ(pool.core.GetStatus(pool.now).adopted_objects, 1u);
  EXPECT_THAT(why("a"), HasSubstr("not evicted for 6.0s more"));
  EXPECT_THAT(why("b"), HasSubstr("a put waits 6.0s more"));
  EXPECT_THAT(pool.Put("b", kBlockPayload).message(), HasSubstr("for 6.0s more"));
  pool.Advance(absl::Seconds(6));
  EXPECT_EQ(pool.core.GetStatus(pool.now).takeover, absl::ZeroDuration());
  EXPECT_EQ(pool.core.GetStatus(pool.now).adopted_objects, 0u);
  EXPECT_THAT(why("a"), Not(HasSubstr("not evicted")));
  EXPECT_THAT(why("b"), Not(HasSubstr("waits")));
  ASSERT_THAT(pool.Put("b", kBlockPayload), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST_F(Recovery, SealReportsFromAnOlderTermAreTakenUpBesideTheInventory) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const Grant old = OldGrant(9, {At(n1.id, 0, 10)});
  const Grant late = OldGrant(8, {At(n1.id, 1, 10)});
  pool_.Report(n1, CoreFixture::Sealed("a", 10, old, n1.id));
  pool_.Complete(n1);
  pool_.Report(n1, CoreFixture::Sealed("b", 10, late, n1.id));
  EXPECT_THAT(pool_.Exists("a"), IsOk());
  EXPECT_FALSE(pool_.Exists("b").ok()) << "the node accepts no seals of older terms by now";
  EXPECT_TRUE(pool_.TakeFrees().empty()) << "the older leader may have leased it";
  pool_.Advance(absl::Seconds(6));
  const auto frees = pool_.TakeFrees();
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].generations, std::vector<Generation>{late.generation});
}

TEST_F(Recovery, PartsOfTwoNodesGoWithEither) {
  const NodeHandle n1 = pool_.Register(OldNode("n1"));
  const NodeHandle n2 = pool_.Register(OldNode("n2"));
  const Grant grant = OldGrant(1, {At(n1.id, 0, 100), At(n2.id, 1, 100)});
  pool_.Inventory(n1, CoreFixture::Sealed("a", 200, grant, n1.id));
  pool_.Inventory(n2, CoreFixture::Sealed("a", 200, grant, n2.id));
  const auto both = Together(CoreFixture::Sealed("a", 200, grant, n1.id),
                             CoreFixture::Sealed("a", 200, grant, n2.id));
  EXPECT_EQ(both.size(), 2u);
  pool_.Disconnect(n2);
  EXPECT_THAT(pool_.Get("a").status, Fails(StatusCode::kUnavailable, ErrorReason::kNodeLost));
  pool_.Advance(absl::Seconds(6));
  EXPECT_THAT(pool_.Exists("a"), Fails(StatusCode::kNotFound, ErrorReason::kNodeLost));
  EXPECT_THAT(pool_.core.CheckInvariants(), IsOk());
}

}  // namespace
}  // namespace moonpool::master
