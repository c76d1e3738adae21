// Parts that nodes have found damaged.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "master/core/lost_parts.h"
#include "master/core/testing/copy_pool.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The node finds the object's bytes damaged and says so.
void Damage(CopyPool& pool, const std::string& key, const std::string& node_name) {
  for (const Replica& replica : pool.Get(key).location.replicas) {
    for (const Part& part : replica.parts) {
      FakeNode& node = *pool.NodeOf(part.node);
      if (node.description.name != node_name) continue;
      node.Forget(part.extent);
      const LostPart lost[] = {{pool.Get(key).location.generation, part.extent}};
      pool.core.PartsLost(node.id, node.session, lost, pool.now);
    }
  }
}

TEST(Lost, ADamagedReplicaIsMadeAgain) {
  CopyPool pool;
  pool.AddNodes(2, 100 * kBlock);
  for (int i = 0; i < 5; ++i) pool.PutSealed(absl::StrCat("k", i), 10, {.replicas = 2});
  Damage(pool, "k2", "n1");
  pool.Advance(absl::ZeroDuration());
  EXPECT_THAT(pool.Holders("k2"), ElementsAre("n0"));
  pool.Settle();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(pool.Holders(absl::StrCat("k", i)), ElementsAre("n0", "n1"));
    pool.ExpectReadable(absl::StrCat("k", i));
  }
  EXPECT_EQ(pool.Status().totals.parts_damaged, 1u);
  EXPECT_EQ(pool.Status().totals.lost, 0u);
}

TEST(Lost, TheLastReplicaIsMissedWithItsReason) {
  CopyPool pool;
  pool.AddNodes(1, 100 * kBlock);
  const Grant grant = pool.PutSealed("key", 10);
  Damage(pool, "key", "n0");
  pool.Advance(absl::ZeroDuration());
  const LocateOutcome missed = pool.Get("key");
  EXPECT_EQ(ReasonOf(missed.status), ErrorReason::kChecksumMismatch);
  EXPECT_THAT(missed.status.message(), HasSubstr("damaged"));
  EXPECT_EQ(pool.core.Why("", "key", pool.now)->state, "damaged");
  EXPECT_EQ(pool.Status().totals.lost, 1u);
  // It does not come back, wherever a record of it may be.
  pool.Collect();
  SealedPart part = OldPart("key");
  part.generation = grant.generation;
  part.extent.length = 10 + kPartHeaderBytes;
  const SealedPart parts[] = {part};
  pool.core.SealReport(pool.nodes[0]->id, pool.nodes[0]->session, parts, pool.now);
  EXPECT_FALSE(pool.Get("key").status.ok());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// Its node may have been away for longer than any copy takes, or the copy failed for the damage.
TEST(Lost, AWholeReplicaOnANodeThatIsAwayComesBack) {
  for (const bool is_written_anew : {false, true}) {
    CopyPool pool;
    pool.AddNodes(2, 100 * kBlock);
    const Grant grant = pool.PutSealed("key", 10, {.replicas = 2});
    pool.Lose(*pool.nodes[1]);
    Damage(pool, "key", "n0");
    pool.Advance(absl::ZeroDuration());
    EXPECT_FALSE(pool.Get("key").status.ok());
    EXPECT_EQ(pool.core.Why("", "key", pool.now)->state, "damaged");
    pool.Collect();
    Generation newest = grant.generation;
    if (is_written_anew) newest = pool.PutSealed("key", 10).generation;
    pool.Connect(*pool.nodes[1]);
    pool.Settle();
    const LocateOutcome found = pool.Get("key");
    ASSERT_THAT(found.status, IsOk());
    EXPECT_EQ(found.location.generation, newest);
    pool.ExpectReadable("key");
    // What was owed to the node whose bytes were damaged is not owed by the other one.
    EXPECT_THAT(pool.nodes[1]->Inventory(), testing::SizeIs(is_written_anew ? 0 : 1));
  }
}

// As the target says it.
absl::Status SourceFails(const CopyCommand& copy, absl::StatusCode code) {
  return MakeError(code, ErrorReason::kChecksumMismatch, "damaged", {.node = copy.source.name});
}

TEST(Lost, WhatFailedForItsSourceIsReadFromAnother) {
  CopyPool pool;
  const auto key = [](int i) { return absl::StrCat("key", i); };
  pool.AddNodes(3, 100 * kBlock);
  for (int i = 0; i < 20; ++i) pool.PutSealed(key(i), kBlockPayload, {.replicas = 3});
  pool.AddNodes(1, 100 * kBlock);
  pool.Lose(*pool.nodes[2]);
  std::map<std::string, std::string> bad;
  while (bad.size() < 20) {
    pool.Collect();
    for (const CopyCommand& copy : std::exchange(pool.orders, {})) {
      bad[copy.key] = copy.source.name;
      pool.Answer(copy, SourceFails(copy, bad.size() % 2 == 0 ? absl::StatusCode::kDataLoss
                                                              : absl::StatusCode::kNotFound));
    }
    pool.Advance(absl::Milliseconds(100));
    pool.KeepAlive();
  }
  for (int second = 0; second < 8; ++second) {
    pool.Collect();
    for (const CopyCommand& copy : std::exchange(pool.orders, {})) {
      EXPECT_NE(copy.source.name, bad[copy.key]);
      pool.Answer(copy, pool.CarryOut(copy));
    }
    pool.Advance(absl::Seconds(1));
    pool.KeepAlive();
  }
  EXPECT_EQ(pool.Ended(CopyEnd::kDone), 20u);
}

// Its node has come anew, and empty, before the target could say what it met there.
TEST(Lost, ASourceThatIsGoneIsNotDoubted) {
  CopyPool pool;
  pool.AddNodes(3, 100 * kBlock);
  pool.PutSealed("key", kBlockPayload, {.replicas = 3});
  pool.AddNodes(1, 100 * kBlock);
  pool.Lose(*pool.nodes[2]);
  pool.Collect();
  ASSERT_THAT(pool.orders, testing::SizeIs(1));
  const CopyCommand copy = pool.orders[0];
  FakeNode& source = *pool.NodeOf(copy.source.node);
  pool.Disconnect(source);
  source.LoseAll();
  pool.Connect(source);
  pool.Advance(absl::ZeroDuration());
  pool.Answer(copy, SourceFails(copy, absl::StatusCode::kNotFound));
  EXPECT_EQ(pool.Ended(CopyEnd::kFailed), 1u);
  pool.orders.clear();
  pool.Settle();
  EXPECT_EQ(pool.Get("key").location.replicas.size(), 3u);
}

TEST(Lost, TheOtherPartsOfItAreForgotten) {
  CopyPool pool({.stripe_bytes = 4 * kBlock});
  pool.AddNodes(3, 100 * kBlock);
  pool.PutSealed("large", 12 * kBlock);
  Damage(pool, "large", "n1");
  pool.Advance(absl::ZeroDuration());
  EXPECT_FALSE(pool.Get("large").status.ok());
  pool.Settle();
  for (const auto& node : pool.nodes) EXPECT_THAT(node->Inventory(), testing::SizeIs(0));
  EXPECT_EQ(pool.Status().used_bytes, 0u);
}

// The report was lost with its session, and the inventory names what is left.
TEST(Lost, ANodeThatReturnsWithSomePartsOfAnObjectDoesNotHaveIt) {
  constexpr uint64_t kPayload = kBlock - kPartHeaderBytes;
  CopyPool pool({.max_lease = absl::Seconds(10), .leased_fraction = 1.0, .min_part_bytes = 1024});
  pool.AddNodes(1, 4 * kBlock);
  for (const char* key : {"k0", "k1", "k2", "k3"}) ASSERT_THAT(pool.Put(key, kPayload), IsOk());
  for (const char* key : {"k1", "k3"}) pool.Get(key, absl::Seconds(9));
  for (const char* key : {"k0", "k2"}) ASSERT_THAT(pool.Remove(key).status, IsOk());
  pool.PutSealed("large", 2 * kPayload);  // into two holes
  const LocateOutcome found = pool.Get("large");
  const auto& parts = found.location.replicas[0].parts;
  ASSERT_EQ(parts.size(), 2u);
  FakeNode& node = *pool.nodes[0];
  for (size_t lost = 0; lost < 2; ++lost) {
    if (lost == 1) node.Forget(parts[1].extent);
    pool.Disconnect(node);
    pool.Connect(node);
    pool.Advance(absl::Seconds(1));
    EXPECT_EQ(pool.Get("large").status.ok(), lost == 0);
    EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  }
}

TEST(Lost, AGrantLosesItsReplicaToo) {
  CopyPool pool;
  pool.AddNodes(2, 100 * kBlock);
  const Grant grant = pool.Grab("key", 10, {.replicas = 2, .min_replicas = 1});
  const Part& part = grant.replicas[0].parts[0];
  const LostPart lost[] = {{grant.generation, part.extent}};
  const FakeNode& node = *pool.NodeOf(part.node);
  pool.core.PartsLost(node.id, node.session, lost, pool.now);
  pool.Advance(absl::ZeroDuration());
  ASSERT_THAT(pool.Commit(grant), IsOk());
  const LocateOutcome found = pool.Get("key");
  ASSERT_EQ(found.location.replicas.size(), 1u);
  EXPECT_NE(found.location.replicas[0].parts[0].node, part.node);
}

TEST(Lost, ACopyOfWhichAPartIsLostAgainIsNotTaken) {
  CopyPool pool({.stripe_bytes = 4 * kBlock});
  pool.AddNodes(4, 100 * kBlock);
  pool.PutSealed("large", 8 * kBlock, {.replicas = 2});
  const NodeId gone = pool.Get("large").location.replicas[0].parts[0].node;
  pool.AddNodes(2, 100 * kBlock);
  pool.Lose(*pool.NodeOf(gone));
  pool.Collect();
  ASSERT_THAT(pool.orders, testing::SizeIs(2));
  const std::vector<CopyCommand> orders = std::exchange(pool.orders, {});
  for (size_t i = 0; i < 2; ++i) {
    pool.Answer(orders[i], pool.CarryOut(orders[i]));
    if (i > 0) break;
    FakeNode& node = *pool.NodeOf(orders[0].node);
    node.Forget(orders[0].extent);
    const LostPart lost[] = {{orders[0].generation, orders[0].extent}};
    pool.core.PartsLost(node.id, node.session, lost, pool.now);
  }
  EXPECT_EQ(pool.Get("large").location.replicas.size(), 1u);
  pool.Settle();
  EXPECT_EQ(pool.Get("large").location.replicas.size(), 2u);
  pool.ExpectReadable("large");
}

TEST(Lost, APartThatWaitsForOthersIsNotAwaitedAnyMore) {
  CopyPool pool;
  const std::vector<SealedPart> halves = OldHalves("key");
  FakeNode& first = pool.Join("n0", 10 * kBlock);
  FakeNode& second = pool.Join("n1", 10 * kBlock);
  pool.core.RaiseTerm(Term{9});
  pool.core.InventorySlice(first.id, first.session, {&halves[0], 1}, pool.now);
  const LostPart lost[] = {{halves[0].generation, halves[0].extent}};
  pool.core.PartsLost(first.id, first.session, lost, pool.now);
  pool.core.InventorySlice(second.id, second.session, {&halves[1], 1}, pool.now);
  EXPECT_FALSE(pool.Get("key").status.ok());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// What the node has left of it completes nothing.
TEST(Lost, WhatStandsBesideAPartThatIsLostWhileItWaitsIsForgotten) {
  CopyPool pool;
  pool.nodes.push_back(std::make_unique<FakeNode>(OldNode("n0")));
  FakeNode& node = *pool.nodes.back();
  for (uint32_t i = 0; i < 2; ++i) {
    SealedPart third = OldHalves("key")[i];
    third.part_count = 3;
    third.extent.offset = i * kBlock;
    ASSERT_TRUE(node.Seal(CopyPool::RecordOf(third)));
  }
  pool.Connect(node);
  const SealedPart part = node.Inventory()[0];
  const LostPart lost[] = {{part.generation, part.extent}};
  node.Forget(lost[0].extent);
  pool.core.PartsLost(node.id, node.session, lost, pool.now);
  pool.Settle();
  EXPECT_THAT(node.Inventory(), testing::SizeIs(0));
}

TEST(Lost, AnInventoryThatNamesOnePartOfTwoMeansThatTheReplicaIsGone) {
  CopyPool pool({.min_part_bytes = 1024});
  pool.AddNodes(1, 4 * kBlock);
  pool.PutSealed("first", kBlockPayload);
  pool.PutSealed("hole", kBlockPayload);
  pool.PutSealed("third", kBlockPayload);
  pool.Remove("hole");
  pool.Collect();
  const Grant grant = pool.PutSealed("both", 2 * kBlockPayload - 1024);
  ASSERT_EQ(grant.replicas[0].parts.size(), 2u);
  FakeNode& node = *pool.nodes[0];
  pool.Disconnect(node);
  node.Forget(grant.replicas[0].parts[0].extent);
  pool.Connect(node);
  pool.Advance(absl::Seconds(1));
  EXPECT_FALSE(pool.Get("both").status.ok());
  EXPECT_THAT(pool.Get("first").status, IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

// The second replica of a grant for two, sealed and perhaps reported; a new session follows.
struct HalfSealed {
  explicit HalfSealed(CopyPool& pool, bool is_reported)
      : grant(pool.Grab("key", 10, {.replicas = 2, .min_replicas = 1})),
        node(*pool.NodeOf(grant.replicas[1].parts[0].node)),
        parts(CoreFixture::Sealed("key", 10, grant, node.id)) {
    EXPECT_TRUE(node.Seal(CopyPool::RecordOf(parts[0])));
    if (is_reported) pool.core.SealReport(node.id, node.session, parts, pool.now);
    pool.Disconnect(node);
  }
  Grant grant;
  FakeNode& node;
  std::vector<SealedPart> parts;
};

TEST(Lost, ASealThatALaterInventoryDoesNotNameIsNone) {
  for (const bool is_damaged : {false, true}) {
    CopyPool pool;
    pool.AddNodes(2, 100 * kBlock);
    const HalfSealed half(pool, /*is_reported=*/true);
    if (is_damaged) half.node.Forget(half.parts[0].extent);
    pool.Connect(half.node);
    pool.Advance(absl::Seconds(11));  // the writer has died
    EXPECT_EQ(pool.Get("key").status.ok(), !is_damaged);
    EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
  }
}

TEST(Lost, AWriterIsBelievedUntilTheNodeHadTheTimeToReport) {
  for (const bool is_damaged : {false, true}) {
    CopyPool pool({.partial_timeout = absl::Seconds(5)});
    pool.AddNodes(2, 100 * kBlock);
    const HalfSealed half(pool, /*is_reported=*/false);
    const std::vector<SealedPart> parts = half.parts;
    half.node.Forget(parts[0].extent);
    pool.Connect(half.node);
    // In the new session: it is sealed now, or it was before and is lost.
    EXPECT_TRUE(is_damaged || half.node.Seal(CopyPool::RecordOf(parts[0])));
    FakeNode& other = *pool.NodeOf(half.grant.replicas[0].parts[0].node);
    for (const SealedPart& part : CoreFixture::Sealed("key", 10, half.grant, other.id)) {
      ASSERT_TRUE(other.Seal(CopyPool::RecordOf(part)));
    }
    ASSERT_THAT(pool.Commit(half.grant), IsOk());
    EXPECT_THAT(pool.Holders("key"), ElementsAre("n0", "n1"));
    if (!is_damaged) pool.core.SealReport(half.node.id, half.node.session, parts, pool.now);
    pool.Advance(absl::Seconds(5));
    EXPECT_EQ(pool.Holders("key").size(), is_damaged ? 1u : 2u);
    pool.Settle();
    EXPECT_THAT(pool.Holders("key"), ElementsAre("n0", "n1"));
    pool.ExpectReadable("key");
  }
}

// What is sealed behind the place where a long inventory is, its node tells when that is uploaded.
TEST(Lost, ALongInventoryIsNoReasonToDisbelieveAWriter) {
  CopyPool pool({.partial_timeout = absl::Seconds(5)});
  pool.AddNodes(1, 100 * kBlock);
  FakeNode& node = *pool.nodes[0];
  const Grant grant = pool.Grab("key", 10);
  pool.Disconnect(node);
  const NodeHandle handle = pool.Register(node.description);
  node.session = handle.session;
  node.is_connected = true;
  const std::vector<SealedPart> parts = CoreFixture::Sealed("key", 10, grant, node.id);
  ASSERT_TRUE(node.Seal(CopyPool::RecordOf(parts[0])));
  ASSERT_THAT(pool.Commit(grant), IsOk());
  for (int second = 0; second < 8; ++second) {
    pool.Advance(absl::Seconds(1));
    pool.KeepAlive();
  }
  pool.Complete(handle);
  pool.Advance(absl::Seconds(1));
  pool.Report(handle, parts);
  pool.Settle();
  ASSERT_THAT(pool.Get("key").status, IsOk());
  pool.ExpectReadable("key");
}

TEST(LostParts, WhatStandsThereSinceIsNotLookedFor) {
  LostParts lost;
  const LostPart reported[] = {{Generation{1}, {SegmentId{0}, 64, 64}},
                               {Generation{1}, {SegmentId{0}, 128, 64}}};
  ASSERT_TRUE(lost.Add(reported));
  lost.Forget(0, 128);
  EXPECT_TRUE(lost.IsNew(0, 64, Generation{1}));
  EXPECT_FALSE(lost.IsNew(0, 128, Generation{1}));
  size_t position = 0;
  ASSERT_TRUE(lost.Next(1, &position));
  lost.Forget(0, 64);
  EXPECT_FALSE(lost.Contains(0, 64, Generation{1}));
  EXPECT_FALSE(lost.Next(1, &position));
}

TEST(Lost, WhatIsNotThereIsNoLoss) {
  CopyPool pool;
  pool.AddNodes(1, 100 * kBlock);
  const Grant grant = pool.PutSealed("key", 10);
  const Part& part = grant.replicas[0].parts[0];
  Extent elsewhere = part.extent;
  elsewhere.offset += kBlock;
  const LostPart lost[] = {{Generation{grant.generation.value - 1}, part.extent},
                           {grant.generation, elsewhere}};
  pool.core.PartsLost(part.node, pool.nodes[0]->session, lost, pool.now);
  pool.core.PartsLost(part.node, SessionId{99}, lost, pool.now);
  pool.Advance(absl::Seconds(1));
  EXPECT_THAT(pool.Get("key").status, IsOk());
}

TEST(Lost, MoreThanAreListedAreLeftToTheInventory) {
  CopyPool pool;
  pool.AddNodes(1, 100 * kBlock);
  pool.PutSealed("key", 10);
  std::vector<LostPart> lost(LostParts::kMax + 1);
  for (size_t i = 0; i < lost.size(); ++i) {
    lost[i] = {Generation{1}, {SegmentId{0}, i * 64, 64}};
  }
  pool.core.PartsLost(pool.nodes[0]->id, pool.nodes[0]->session, lost, pool.now);
  EXPECT_THAT(pool.core.TakeEffects().to_register, ElementsAre(pool.nodes[0]->id));
  pool.Connect(*pool.nodes[0]);
  pool.Advance(absl::Seconds(1));
  EXPECT_THAT(pool.Get("key").status, IsOk());
}

}  // namespace
}  // namespace moonpool::master
