// What a core says is to outlive it, and what the next one makes of it.
#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "master/core/testing/copy_pool.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The registry is closed, and these are in it.
DurableState Closed(std::vector<DurableNode> nodes = {}) {
  return {.term = Term{6}, .is_registry_closed = true, .nodes = std::move(nodes)};
}

class DurableTest : public testing::Test {
 protected:
  // Another core in the place of the present one, and its nodes gone.
  void Begin(const DurableState& left, CoreOptions options = {}) {
    pool = std::make_unique<CoreFixture>(std::move(options), left, Term{++term_.value});
    pool->Advance(absl::ZeroDuration());  // take-over begins
  }
  std::vector<DurableChange> Changes() { return pool->core.TakeEffects().unsaved; }
  bool Frees(NodeId node, Generation generation) {
    for (const FreeCommand& free : pool->TakeFrees()) {
      const auto& all = free.generations;
      if (free.node == node && std::find(all.begin(), all.end(), generation) != all.end()) {
        return true;
      }
    }
    return false;
  }
  // A node that an older master of term 5 has registered and filled.
  static RegisterNodeCommand Old(const std::string& name) {
    RegisterNodeCommand description = CoreFixture::Description(name, {10 * kBlock});
    description.highest_term_seen = Term{5};
    return description;
  }
  static SealedPart Part(absl::string_view key, uint32_t counter = 1) {
    return SealedPart{.generation = Generation::Of(Term{5}, counter),
                      .name_space = "default",
                      .key = key,
                      .extent = {SegmentId{0}, 0, 10 + kPartHeaderBytes},
                      .object_bytes = 10};
  }

  std::unique_ptr<CoreFixture> pool;

 private:
  Term term_{6};
};

TEST_F(DurableTest, WithoutAStoreThereIsNothingToKeep) {
  CoreFixture plain;
  plain.AddNode("n1", kBlock);
  ASSERT_THAT(plain.core.OpenNamespace("models", "f1", plain.now), IsOk());
  plain.core.RaiseTerm(Term{9});
  plain.Advance(absl::Hours(1));
  EXPECT_THAT(plain.core.TakeEffects().unsaved, IsEmpty());
  EXPECT_EQ(plain.core.term_saved_by(), 0u);
}

TEST_F(DurableTest, AFingerprintIsKeptOnceAndHoldsAfterwards) {
  Begin({.namespaces = {{"models", "f1"}}});
  const auto known = pool->core.OpenNamespace("models", "f1", pool->now);
  ASSERT_THAT(known, IsOk());
  EXPECT_EQ(known->saved_by, 0u);
  EXPECT_THAT(pool->core.OpenNamespace("models", "f2", pool->now),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  const auto first = pool->core.OpenNamespace("other", "f2", pool->now);
  const auto again = pool->core.OpenNamespace("other", "", pool->now);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(first->saved_by, 1u);
  EXPECT_EQ(again->saved_by, 1u);
  EXPECT_THAT(Changes(), ElementsAre(DurableNamespace{"other", "f2"}));
}

TEST_F(DurableTest, ThereIsRoomForEveryNamespaceThatWasLeft) {
  Begin({.namespaces = {{"a", "f"}, {"b", "f"}, {"c", "f"}}}, {.max_namespaces = 1});
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_THAT(pool->core.OpenNamespace(name, "g", pool->now),
                Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  }
  EXPECT_THAT(pool->core.OpenNamespace("d", "f", pool->now),
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
}

TEST_F(DurableTest, ARaisedTermIsKept) {
  Begin({});
  EXPECT_EQ(pool->core.term_saved_by(), 0u) << "the first one was before the core";
  pool->core.RaiseTerm(Term{20});
  EXPECT_EQ(pool->core.term_saved_by(), 1u);
  EXPECT_THAT(Changes(), ElementsAre(DurableChange{Term{21}}));
}

TEST_F(DurableTest, AnIncarnationIsKeptWhenItRegistersFirst) {
  Begin(Closed());
  const RegisterNodeCommand description = CoreFixture::Description("n1", {kBlock});
  const auto first = pool->core.RegisterNode(description, pool->now);
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->saved_by, 1u);
  const DurableNode kept{"n1", Incarnation{1}, Generation::Of(pool->core.term(), 0)};
  EXPECT_THAT(Changes(), ElementsAre(kept));
  const auto again = pool->core.RegisterNode(description, pool->now);
  EXPECT_EQ(again->saved_by, 1u);
  EXPECT_THAT(Changes(), IsEmpty());
  Begin(Closed({kept}));
  EXPECT_EQ(pool->core.RegisterNode(description, pool->now)->saved_by, 0u);
  EXPECT_THAT(Changes(), IsEmpty());
}

TEST_F(DurableTest, AnotherIncarnationTakesThePlaceOfTheFirst) {
  Begin(Closed({{"n1", Incarnation{1}, {}}}));
  pool->Register(CoreFixture::Description("n1", {kBlock}, "", "", 2));
  EXPECT_THAT(Changes(),
              ElementsAre(DurableNode{"n1", Incarnation{2}, Generation::Of(pool->core.term(), 0)}));
  EXPECT_EQ(pool->core.strike_saved_by(), 1u);
}

TEST_F(DurableTest, WhatAnIncarnationOfTheRegistryHoldsIsTaken) {
  Begin(Closed({{"n1", Incarnation{1}, {}}}));
  const NodeHandle node = pool->Register(Old("n1"));
  pool->Inventory(node, {Part("a")});
  pool->Complete(node);
  EXPECT_THAT(pool->Exists("a"), IsOk());
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableTest, WhatAStrangerHoldsIsFreedAndItsNewObjectsAreTakenByTheNext) {
  Begin(Closed());
  pool->Advance(absl::Seconds(4));  // past older leases
  const NodeHandle node = pool->Register(Old("n1"));
  pool->Inventory(node, {Part("a")});
  pool->Complete(node);
  EXPECT_FALSE(pool->Exists("a").ok());
  EXPECT_TRUE(Frees(node.id, Part("a").generation));
  const Grant grant = pool->Grab("b", 10);
  ASSERT_THAT(pool->Commit(grant), IsOk());
  // Before the node has forgotten it, the master dies.
  Begin(Closed({{"n1", Incarnation{1}, Generation::Of(Term{7}, 0)}}));
  const NodeHandle back = pool->Register(node.description);
  std::vector<SealedPart> parts = CoreFixture::Sealed("b", 10, grant, node.id);
  SealedPart old = Part("a");
  old.extent.offset = 5 * kBlock;
  parts.push_back(old);
  pool->Inventory(back, parts);
  pool->Complete(back);
  EXPECT_THAT(pool->Exists("b"), IsOk());
  EXPECT_FALSE(pool->Exists("a").ok());
  pool->Advance(absl::Seconds(4));
  EXPECT_TRUE(Frees(back.id, old.generation));
}

TEST_F(DurableTest, WhatAStrangerHoldsRestsWhileAMasterBeforeMayHaveLeasedIt) {
  Begin(Closed());
  const NodeHandle node = pool->Register(Old("n1"));
  pool->Inventory(node, {Part("a")});
  pool->Complete(node);
  EXPECT_FALSE(pool->Exists("a").ok());
  EXPECT_THAT(pool->core.TakeEffects().frees, IsEmpty());
  EXPECT_GT(pool->core.GetStatus(pool->now).condemned_bytes, 0u);
  pool->Advance(absl::Seconds(4));
  EXPECT_TRUE(Frees(node.id, Part("a").generation));
  EXPECT_EQ(pool->core.GetStatus(pool->now).condemned_bytes, 0u);
}

TEST_F(DurableTest, AnEmptyStrangerIsLetInAtOnce) {
  Begin(Closed());
  const NodeHandle node = pool->Register(CoreFixture::Description("n1", {kBlock}));
  pool->Inventory(node, {});
  pool->Complete(node);
  EXPECT_THAT(pool->Put("a", 10), IsOk());
}

TEST_F(DurableTest, TheFirstMasterWithAStoreTakesWhatAnyNodeHolds) {
  Begin({}, {.registry_open = absl::Seconds(60)});
  const NodeHandle node = pool->Register(Old("n1"));
  pool->Inventory(node, {Part("a")});
  pool->Complete(node);
  EXPECT_THAT(pool->Exists("a"), IsOk());
  EXPECT_THAT(Changes(), ElementsAre(DurableNode{"n1", Incarnation{1}, {}}));
  pool->Advance(absl::Seconds(59));
  EXPECT_THAT(Changes(), IsEmpty()) << "so does the next one, if this one dies now";
  pool->Advance(absl::Seconds(1));
  EXPECT_THAT(Changes(), ElementsAre(RegistryClosed{}));
  pool->Advance(absl::Hours(1));
  EXPECT_THAT(Changes(), IsEmpty()) << "once";
}

TEST_F(DurableTest, AnIncarnationThatIsGivenUpIsTakenOut) {
  Begin(Closed());
  const NodeHandle node = pool->AddNode("n1", kBlock);
  pool->Disconnect(node);
  Changes();
  const auto forgotten = pool->core.ForgetNode("n1", pool->now);
  ASSERT_THAT(forgotten, IsOk());
  EXPECT_EQ(*forgotten, 2u);
  EXPECT_EQ(pool->core.strike_saved_by(), 2u);
  EXPECT_THAT(Changes(), ElementsAre(NodeForgotten{"n1"}));
}

TEST_F(DurableTest, ANodeThatThisMasterHasNotMetCanBeForgotten) {
  Begin(Closed({{"n1", Incarnation{1}, {}}}));
  EXPECT_THAT(pool->core.ForgetNode("n1", pool->now), IsOk());
  EXPECT_THAT(Changes(), ElementsAre(NodeForgotten{"n1"}));
  EXPECT_THAT(pool->core.ForgetNode("n1", pool->now), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(DurableTest, ANodeThatRegistersWithOtherSegmentsStaysTheSame) {
  Begin(Closed({{"n1", Incarnation{1}, {}}}));
  pool->AddNode("n1", kBlock);
  EXPECT_THAT(Changes(), IsEmpty());
  pool->Register(CoreFixture::Description("n1", {2 * kBlock}));
  EXPECT_THAT(Changes(), ElementsAre(NodeForgotten{"n1"}, DurableNode{"n1", Incarnation{1}, {}}));
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableTest, TheRegistryIsBounded) {
  Begin(Closed({{"old", Incarnation{1}, {}}}), {.max_nodes = 2});
  pool->AddNode("n1", kBlock);
  Changes();
  pool->AddNode("n2", kBlock);
  EXPECT_THAT(Changes(), Contains(NodeForgotten{"old"}));
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableTest, WhatWasRemovedRestsWhileAMasterBeforeMayHaveLeasedIt) {
  DurableState left = Closed({{"n1", Incarnation{1}, {}}});
  left.removals = {{"default", "a", Generation::Of(Term{6}, 0)}};
  Begin(left);
  const NodeHandle node = pool->Register(Old("n1"));
  pool->Inventory(node, {Part("a")});
  pool->Complete(node);
  EXPECT_EQ(pool->core.GetStatus(pool->now).condemned_bytes, 128u);
  pool->Advance(absl::Seconds(4));
  EXPECT_TRUE(Frees(node.id, Part("a").generation));
  EXPECT_EQ(pool->core.GetStatus(pool->now).condemned_bytes, 0u);
}

TEST_F(DurableTest, WhatAStrangerHoldsCompletesNothing) {
  Begin(Closed({{"n1", Incarnation{1}, {}}}));
  std::vector<SealedPart> halves(2, Part("a"));
  for (uint32_t i = 0; i < halves.size(); ++i) {
    halves[i].extent.length = 5 + kPartHeaderBytes;
    halves[i].part_index = i;
    halves[i].part_count = 2;
  }
  const NodeHandle known = pool->Register(Old("n1"));
  pool->Inventory(known, {halves[0]});
  const NodeHandle stranger = pool->Register(Old("n2"));
  pool->Inventory(stranger, {halves[1]});
  EXPECT_FALSE(pool->Exists("a").ok()) << "it may have been removed when n2 was given up";
  pool->Advance(absl::Seconds(4));
  EXPECT_TRUE(Frees(stranger.id, halves[1].generation));
}

// A node that joined after the registry was closed, or returned after it was given up.
class BelievedTest : public testing::Test {
 protected:
  // "a" is on n0; n1 is empty.
  BelievedTest() {
    pool.Join("n0", 10 * kBlock);
    pool.PutSealed("a", 10);
    pool.Collect();
  }
  // What the masters before this one have left, as the changes of this one make it.
  DurableState Left(Term term) const {
    DurableState left{.term = term, .is_registry_closed = true};
    for (const DurableChange& change : pool.unsaved) {
      if (const auto* struck = std::get_if<NodeForgotten>(&change)) {
        std::erase_if(left.nodes, [&](const DurableNode& n) { return n.name == struck->name; });
      }
      const auto* const node = std::get_if<DurableNode>(&change);
      if (node == nullptr) continue;
      std::erase_if(left.nodes, [&](const DurableNode& n) { return n.name == node->name; });
      left.nodes.push_back(*node);
    }
    return left;
  }
  void ExpectKeptByTheNext(const std::string& node_name) {
    CopyPool next({}, Left(Term{7}), Term{8});
    next.nodes = std::move(pool.nodes);
    std::erase_if(next.nodes, [&](const auto& n) { return n->description.name != node_name; });
    next.nodes[0]->description.highest_term_seen = Term{7};
    next.Connect(*next.nodes[0]);
    next.Advance(absl::Minutes(2));
    next.ExpectReadable("a");
    EXPECT_THAT(next.core.CheckInvariants(), IsOk());
  }

  CopyPool pool{{}, DurableState{.term = Term{6}, .is_registry_closed = true}, Term{7}};
};

TEST_F(BelievedTest, WhatHasMovedToANewNodeIsKeptByTheNextMaster) {
  pool.Join("n1", 10 * kBlock);
  pool.Settle();
  ASSERT_THAT(pool.core.DrainNode("n0", false, pool.now), IsOk());
  pool.Settle();
  ASSERT_THAT(pool.Holders("a"), ElementsAre("n1"));
  ExpectKeptByTheNext("n1");
}

TEST_F(BelievedTest, NothingOlderMovesToANodeBeforeTheNextMasterWillBelieveIt) {
  pool.Join("n1", 10 * kBlock);
  ASSERT_THAT(pool.core.DrainNode("n0", false, pool.now), IsOk());
  pool.Advance(absl::Minutes(1));
  const Effects effects = pool.core.TakeEffects();
  EXPECT_THAT(effects.copies, IsEmpty());
  EXPECT_THAT(effects.unsaved, Contains(DurableChange(DurableNode{"n1", Incarnation{1}, {}})));
  pool.core.Saved(pool.unsaved.size() + effects.unsaved.size());
  for (int i = 0; i < 3; ++i) pool.Advance(absl::Seconds(2));  // the next walk begins
  EXPECT_THAT(pool.core.TakeEffects().copies, testing::SizeIs(1));
}

TEST_F(BelievedTest, ANodeThatReturnsAfterItWasGivenUpIsBelievedWhenItHasForgottenWhatItShall) {
  FakeNode& n1 = pool.Join("n1", 10 * kBlock);
  pool.Settle();
  pool.PutSealed("b", 10, {.host = "host-n1"});
  pool.Collect();
  pool.Disconnect(n1);
  ASSERT_THAT(pool.core.ForgetNode("n1", pool.now), IsOk());
  pool.Advance(absl::Seconds(10));
  pool.Connect(n1);
  pool.Advance(absl::ZeroDuration());
  const Effects effects = pool.core.TakeEffects();
  for (const DurableChange& change : effects.unsaved) pool.unsaved.push_back(change);
  const DurableNode believed{"n1", Incarnation{1}, {}};
  EXPECT_THAT(effects.unsaved, testing::Not(Contains(DurableChange(believed))))
      << "it still has what may have been removed meanwhile";
  pool.Advance(absl::Seconds(10));  // it is told again
  pool.Settle();
  EXPECT_THAT(pool.unsaved.back(), DurableChange(believed));
  EXPECT_FALSE(pool.Exists("b").ok());
  ASSERT_THAT(pool.core.DrainNode("n0", false, pool.now), IsOk());
  pool.Settle();
  ASSERT_THAT(pool.Holders("a"), ElementsAre("n1"));
  ExpectKeptByTheNext("n1");
}

}  // namespace
}  // namespace moonpool::master
