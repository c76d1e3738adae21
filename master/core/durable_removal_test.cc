// Removals that nodes who are not there to be asked must not undo, under any master (R6).
#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "master/core/testing/core_fixture.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

// Masters that follow each other, and what they leave.
class DurableRemovalTest : public testing::Test {
 protected:
  DurableRemovalTest() { Begin(); }

  void Begin(CoreOptions options = {}) {
    pool = std::make_unique<CoreFixture>(std::move(options), disk, Term{++term_});
    pool->Advance(absl::ZeroDuration());
    pool->Advance(absl::Seconds(4));  // past the leases of the master before
  }
  // Everything that was to be written is durable. True: there was something.
  bool Write() { return Keep(pool->core.TakeEffects()); }
  // Nodes do at once what they are told.
  void ConfirmFrees() {
    Effects effects = pool->core.TakeEffects();
    Keep(effects);
    for (const FreeCommand& free : effects.frees) pool->Confirm(free);
    Write();
  }
  std::vector<std::string> Removed() const {
    std::vector<std::string> keys;
    for (const DurableRemoval& removal : disk.removals) keys.push_back(removal.key);
    return keys;
  }
  NodeHandle Return(const std::string& name, const std::vector<SealedPart>& parts) {
    NodeHandle node = pool->Register(OldNode(name));
    pool->Inventory(node, parts);
    pool->Complete(node);
    return node;
  }

  DurableState disk = {.term = Term{6},
                       .is_registry_closed = true,
                       .nodes = {{"n1", Incarnation{1}, {}}, {"n2", Incarnation{1}, {}}}};
  std::unique_ptr<CoreFixture> pool;
  std::vector<std::string> order;  // of what was forgotten

 private:
  bool Keep(const Effects& effects) {
    for (const DurableChange& change : effects.unsaved) {
      if (const auto* removal = std::get_if<DurableRemoval>(&change)) {
        std::erase_if(disk.removals, [&](const auto& r) { return r.key == removal->key; });
        disk.removals.push_back(*removal);
      } else if (const auto* gone = std::get_if<RemovalForgotten>(&change)) {
        std::erase_if(disk.removals, [&](const auto& r) { return r.key == gone->key; });
        order.push_back(gone->key);
      } else if (const auto* node = std::get_if<DurableNode>(&change)) {
        std::erase_if(disk.nodes, [&](const auto& n) { return n.name == node->name; });
        disk.nodes.push_back(*node);
      } else if (const auto* left = std::get_if<NodeForgotten>(&change)) {
        std::erase_if(disk.nodes, [&](const auto& n) { return n.name == left->name; });
        order.push_back(left->name);
      }
    }
    return !effects.unsaved.empty();
  }

  uint32_t term_ = 6;
};

TEST_F(DurableRemovalTest, ANodeThatNoMasterHasMetSinceBringsNothingBack) {
  Return("n1", {OldPart("a")});
  ASSERT_THAT(pool->Exists("a"), IsOk());
  const RemoveOutcome removed = pool->Remove("a");
  EXPECT_THAT(removed.status, IsOk());
  EXPECT_GT(removed.saved_by, 0u);
  ConfirmFrees();
  EXPECT_TRUE(pool->core.IsRemoveDone(removed.ticket)) << "the caller does not wait for n2";
  EXPECT_EQ(Removed(), std::vector<std::string>{"a"});
  Begin();
  Return("n2", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_EQ(Removed(), std::vector<std::string>{"a"}) << "n1 was not met by this master";
  Return("n1", {});
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
  EXPECT_EQ(pool->core.GetStatus(pool->now).tombstones, 0u);
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableRemovalTest, WhatWaitsForAHolderThatIsAwayBindsTheNextMasterToo) {
  const NodeHandle n1 = Return("n1", {OldPart("a")});
  Return("n2", {});
  Write();
  pool->Disconnect(n1);
  const RemoveOutcome removed = pool->Remove("a");
  EXPECT_GT(removed.saved_by, 0u);
  ConfirmFrees();
  EXPECT_FALSE(pool->core.IsRemoveDone(removed.ticket)) << "who knows the place may still read it";
  EXPECT_EQ(Removed(), std::vector<std::string>{"a"});
  Begin();
  Return("n2", {});
  Return("n1", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableRemovalTest, OneThatIsRepeatedBindsTheNextMasterToo) {
  const NodeHandle n1 = Return("n1", {OldPart("a")});
  Return("n2", {});
  Write();
  const RemoveOutcome first = pool->Remove("a");
  EXPECT_EQ(first.saved_by, 0u) << "its holder is there to be told";
  EXPECT_THAT(Removed(), IsEmpty());
  pool->Disconnect(n1);
  const RemoveOutcome again = pool->Remove("a");
  EXPECT_EQ(again.ticket, first.ticket);
  EXPECT_GT(again.saved_by, 0u);
  Write();
  EXPECT_EQ(Removed(), std::vector<std::string>{"a"});
  // As soon as the holder has forgotten it, so has the store.
  Return("n1", {OldPart("a")});
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  ConfirmFrees();
  EXPECT_TRUE(pool->core.IsRemoveDone(first.ticket));
  EXPECT_THAT(Removed(), IsEmpty());
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableRemovalTest, ItIsRememberedUntilTheNodeHasForgotten) {
  Return("n1", {OldPart("a")});
  pool->Remove("a");
  ConfirmFrees();
  const NodeHandle n2 = Return("n2", {OldPart("a")});
  pool->Advance(absl::Seconds(1));
  const Effects effects = pool->core.TakeEffects();
  EXPECT_EQ(Removed(), std::vector<std::string>{"a"});
  EXPECT_THAT(effects.unsaved, IsEmpty());
  pool->Disconnect(n2);  // before it was told
  Begin();
  Return("n1", {});
  Return("n2", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(DurableRemovalTest, WhatIsNotFoundWhileANodeIsMissingIsNotFoundLaterEither) {
  Return("n1", {});
  const RemoveOutcome removed = pool->Remove("a");
  EXPECT_THAT(removed.status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_GT(removed.saved_by, 0u);
  Write();
  Begin();
  Return("n1", {});
  Return("n2", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
}

TEST_F(DurableRemovalTest, WhatWasLostDoesNotReturnWithItsNode) {
  Return("n1", {});
  const NodeHandle n2 = Return("n2", {OldPart("a")});
  pool->Advance(absl::Seconds(1));
  pool->Disconnect(n2);
  pool->Advance(absl::Seconds(6));
  const RemoveOutcome removed = pool->Remove("a");
  EXPECT_THAT(removed.status, Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
  EXPECT_GT(removed.saved_by, 0u) << "all are met, but one owes";
  Write();
  Begin();
  Return("n1", {});
  Return("n2", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(DurableRemovalTest, WhatWasEvictedIsRememberedUntilItsNodeHasForgotten) {
  disk.nodes.clear();
  Begin();
  pool->AddNode("n1", kBlock);
  ASSERT_THAT(pool->Put("a", kBlockPayload), IsOk());
  ASSERT_THAT(pool->Put("b", kBlockPayload), IsOk());
  const RemoveOutcome removed = pool->Remove("a");
  EXPECT_THAT(removed.status, Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
  EXPECT_GT(removed.saved_by, 0u);
  Effects effects = pool->core.TakeEffects();
  EXPECT_THAT(effects.unsaved, testing::Contains(DurableRemoval{
                                   "default", "a", Generation::Of(pool->core.term(), 2)}));
  for (const FreeCommand& free : effects.frees) pool->Confirm(free);
  Write();
  EXPECT_EQ(order, std::vector<std::string>{"a"});
}

TEST_F(DurableRemovalTest, NothingIsWrittenWhenNobodyCanBringItBack) {
  Return("n1", {OldPart("a")});
  Return("n2", {});
  Write();
  EXPECT_EQ(pool->Remove("a").saved_by, 0u) << "the caller waits for all holders";
  EXPECT_EQ(pool->Remove("never").saved_by, 0u);
  EXPECT_FALSE(Write());
  EXPECT_THAT(pool->core.CheckInvariants(), IsOk());
}

TEST_F(DurableRemovalTest, APutAfterItIsNoneOfIts) {
  const NodeHandle n1 = Return("n1", {OldPart("a")});
  pool->Remove("a");
  ConfirmFrees();
  const Grant grant = pool->Grab("a", 10);
  ASSERT_THAT(pool->Commit(grant), IsOk());
  Write();
  Begin();
  const std::vector<SealedPart> newer = CoreFixture::Sealed("a", 10, grant, n1.id);
  Return("n2", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
  Return("n1", newer);
  EXPECT_THAT(pool->Exists("a"), IsOk());
}

TEST_F(DurableRemovalTest, ALaterOneOfTheKeyCoversMore) {
  const NodeHandle n1 = Return("n1", {OldPart("a")});
  const ChangeNumber first = pool->Remove("a").saved_by;
  EXPECT_EQ(pool->Remove("a").saved_by, first) << "repeated";
  ConfirmFrees();
  const Grant grant = pool->Grab("a", 10);
  ASSERT_THAT(pool->Commit(grant), IsOk());
  EXPECT_GT(pool->Remove("a").saved_by, first);
  ConfirmFrees();
  ASSERT_EQ(disk.removals.size(), 1u);
  EXPECT_GE(disk.removals[0].generation, grant.generation);
  Return("n2", {OldPart("a")});
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(DurableRemovalTest, ANodeThatIsGivenUpIsForgottenBeforeWhatItMayHold) {
  Return("n1", {OldPart("a")});
  pool->Remove("a");
  ConfirmFrees();
  ASSERT_THAT(pool->core.ForgetNode("n2", pool->now), IsOk());
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_EQ(order, (std::vector<std::string>{"n2", "a"}));
}

TEST_F(DurableRemovalTest, AnotherIncarnationHoldsNothingOfIt) {
  Return("n1", {OldPart("a")});
  pool->Remove("a");
  ConfirmFrees();
  pool->Complete(pool->Register(CoreFixture::Description("n2", {kBlock}, "", "", 2)));
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(DurableRemovalTest, AtTheBoundARemovalIsRefusedAndNotForgotten) {
  Begin({.max_tombstones = 1});
  Return("n1", {});
  EXPECT_THAT(pool->Remove("a").status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(pool->Remove("b").status,
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  Return("n2", {});
  pool->Advance(absl::Seconds(1));
  EXPECT_THAT(pool->Remove("b").status, StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(DurableRemovalTest, WhatAMasterBeforeMayHaveLeasedIsFreedAfterTheLease) {
  disk.removals = {{"default", "a", Generation::Of(Term{6}, 1)}};
  pool = std::make_unique<CoreFixture>(CoreOptions{}, disk, Term{9});
  pool->Advance(absl::ZeroDuration());
  const NodeHandle n1 = Return("n1", {OldPart("a")});
  EXPECT_FALSE(pool->Exists("a").ok());
  EXPECT_THAT(pool->TakeFrees(), IsEmpty());
  pool->Advance(absl::Seconds(4));
  EXPECT_THAT(pool->TakeFrees(), Not(IsEmpty()));
}

TEST_F(DurableRemovalTest, ATombstoneStaysWhileANodeHasMoreToForgetThanIsListed) {
  disk.nodes = {{"n1", Incarnation{1}, {}}};
  for (const char* key : {"a", "b"}) {
    disk.removals.push_back({"default", key, Generation::Of(Term{6}, 0)});
  }
  Begin({.max_debts = 1});
  SealedPart other = OldPart("b");
  other.generation = Generation::Of(Term{5}, 2);
  other.extent.offset = kBlock;
  Return("n1", {OldPart("a"), other});
  for (int tick = 0; tick < 3; ++tick) {
    ConfirmFrees();
    pool->Advance(absl::Seconds(1));
  }
  EXPECT_THAT(Removed(), Contains("b")) << "the node was not told of it";
  Return("n1", {other});
  ConfirmFrees();
  pool->Advance(absl::Seconds(1));
  Write();
  EXPECT_THAT(Removed(), IsEmpty());
  EXPECT_FALSE(pool->Exists("b").ok());
}

}  // namespace
}  // namespace moonpool::master
