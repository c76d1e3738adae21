#include "master/core/debt_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/random.h"

namespace moonpool::master {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr NodeId kOne{1};
constexpr NodeId kTwo{2};
constexpr absl::Time kNow = absl::UnixEpoch();

Debt DebtOf(uint64_t key_hash, uint64_t generation = 1) {
  return Debt{key_hash, Generation{generation}};
}

// Sends all that the node has not been sent; the ids.
std::vector<uint64_t> Send(DebtTable& debts, NodeId node) {
  const std::vector<uint64_t> ids = debts.Unsent(node);
  for (const uint64_t id : ids) debts.Sent(id, kNow + absl::Seconds(5));
  return ids;
}

TEST(DebtTable, IsOwedFromTheFirstMomentUntilItIsConfirmed) {
  DebtTable debts(10);
  debts.Owe(kOne, DebtOf(5));
  EXPECT_TRUE(debts.IsOwed(kOne, DebtOf(5)));
  EXPECT_FALSE(debts.IsOwed(kTwo, DebtOf(5)));
  EXPECT_FALSE(debts.IsOwed(kOne, DebtOf(5, 2)));
  const std::vector<uint64_t> ids = debts.Unsent(kOne);
  ASSERT_EQ(ids.size(), 1u);
  debts.Confirm(kOne, ids[0]);
  EXPECT_TRUE(debts.IsOwed(kOne, DebtOf(5))) << "nobody has told the node";
  Send(debts, kOne);
  EXPECT_TRUE(debts.IsOwed(kOne, DebtOf(5)));
  debts.Confirm(kTwo, ids[0]);
  EXPECT_TRUE(debts.IsOwed(kOne, DebtOf(5))) << "another node's word";
  debts.Confirm(kOne, ids[0]);
  EXPECT_FALSE(debts.IsOwed(kOne, DebtOf(5)));
  EXPECT_EQ(debts.DebtsOf(kOne), 0u);
}

TEST(DebtTable, OneCommandIsFilledUntilItIsSentOrFull) {
  DebtTable debts(2 * kMaxFreesPerCommand);
  debts.Owe(kOne, DebtOf(1));
  debts.Owe(kOne, DebtOf(2));
  debts.Owe(kOne, DebtOf(2));
  const std::vector<uint64_t> first = Send(debts, kOne);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(debts.Find(first[0])->items.size(), 2u) << "nothing is owed twice";
  for (uint64_t i = 0; i <= kMaxFreesPerCommand; ++i) debts.Owe(kOne, DebtOf(10 + i));
  const std::vector<uint64_t> rest = Send(debts, kOne);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(debts.Find(rest[0])->items.size(), kMaxFreesPerCommand);
  EXPECT_EQ(debts.Find(rest[1])->items.size(), 1u);
  EXPECT_EQ(debts.Find(first[0])->items.size(), 2u) << "it is on its way";
  EXPECT_TRUE(debts.AddsUp());
}

TEST(DebtTable, ARemovalAwaitsAllThatIsOwedOfTheKeyOncePerCommand) {
  DebtTable debts(10);
  debts.Owe(kOne, DebtOf(5, 1), Haste::kNextTick);
  debts.Owe(kOne, DebtOf(5, 2), Haste::kNextTick);
  debts.Owe(kTwo, DebtOf(5, 1));
  debts.Owe(kTwo, DebtOf(6, 1));
  Send(debts, kTwo);
  debts.TakeHasty();
  EXPECT_EQ(debts.Attach(5, RemoveTicket{7}), 2u);
  EXPECT_EQ(debts.Attach(4, RemoveTicket{8}), 0u);
  EXPECT_THAT(debts.TakeHasty(), ElementsAre(kOne)) << "somebody waits for it now";
  EXPECT_TRUE(debts.IsAwaited(kOne));
  const std::vector<uint64_t> ids = Send(debts, kOne);
  EXPECT_THAT(debts.Confirm(kOne, ids[0]), ElementsAre(RemoveTicket{7}));
  EXPECT_FALSE(debts.IsAwaited(kOne));
  EXPECT_THAT(debts.Drop(kTwo), ElementsAre(RemoveTicket{7}));
  EXPECT_TRUE(debts.AddsUp());
}

TEST(DebtTable, ANodeIsAskedOnceHoweverOftenItReports) {
  DebtTable debts(10);
  EXPECT_TRUE(debts.Free(kOne, DebtOf(5), RemoveTicket{3}));
  EXPECT_FALSE(debts.Free(kOne, DebtOf(5), RemoveTicket{3}));
  debts.Owe(kOne, DebtOf(6));
  EXPECT_TRUE(debts.Free(kOne, DebtOf(6), RemoveTicket{4})) << "no removal awaited it";
  EXPECT_FALSE(debts.Free(kOne, DebtOf(6), RemoveTicket{4}));
  const std::vector<uint64_t> ids = Send(debts, kOne);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(debts.Find(ids[0])->items.size(), 2u);
  EXPECT_FALSE(debts.Free(kOne, DebtOf(5), RemoveTicket{3})) << "it is on its way";
  EXPECT_THAT(debts.Confirm(kOne, ids[0]), ElementsAre(RemoveTicket{3}, RemoveTicket{4}));
}

TEST(DebtTable, OnlyHasteNamesANodeAndOnlyOnce) {
  DebtTable debts(10);
  debts.Owe(kOne, DebtOf(1), Haste::kNextTick);
  EXPECT_THAT(debts.TakeHasty(), IsEmpty());
  debts.Owe(kOne, DebtOf(2));
  EXPECT_THAT(debts.TakeHasty(), ElementsAre(kOne));
  EXPECT_THAT(debts.TakeHasty(), IsEmpty());
}

TEST(DebtTable, UnderALeaseNoHolderIsToldBeforeItsEnd) {
  DebtTable debts(10);
  const absl::Time held = kNow + absl::Seconds(3);
  debts.Owe(kOne, DebtOf(5), Haste::kNow, held);
  debts.Owe(kTwo, DebtOf(5));
  EXPECT_TRUE(debts.IsOwed(kOne, DebtOf(5)));
  EXPECT_THAT(Send(debts, kOne), IsEmpty());
  EXPECT_THAT(Send(debts, kTwo), IsEmpty()) << "the reader may read there as well";
  EXPECT_THAT(debts.Unconfirmed(kTwo, kNow), IsEmpty());
  EXPECT_EQ(debts.Unconfirmed(kTwo, held).size(), 1u);
  EXPECT_EQ(debts.Due(kNow), std::nullopt);
  EXPECT_TRUE(debts.Due(held).has_value());
  EXPECT_EQ(debts.Attach(5, RemoveTicket{7}), 2u);
}

TEST(DebtTable, ManyThatAreHeldUntilOneTimeShareCommands) {
  DebtTable debts(2 * kMaxFreesPerCommand);
  const absl::Time held = kNow + absl::Seconds(3);
  for (uint64_t i = 0; i <= kMaxFreesPerCommand; ++i) debts.Owe(kOne, DebtOf(i), {}, held);
  EXPECT_TRUE(debts.Free(kOne, DebtOf(1 << 20), RemoveTicket{3}, held));
  const std::vector<uint64_t> ids = debts.Unconfirmed(kOne, held);
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(debts.Find(ids[1])->items.size(), 2u);
  EXPECT_THAT(debts.Confirm(kOne, ids[1]), IsEmpty()) << "nobody has told the node";
  debts.Sent(ids[1], held + absl::Seconds(5));
  debts.Owe(kOne, DebtOf(1 << 21), {}, held);
  EXPECT_EQ(debts.Find(ids[1])->items.size(), 2u) << "it is on its way";
  EXPECT_THAT(debts.Confirm(kOne, ids[1]), ElementsAre(RemoveTicket{3}));
  EXPECT_TRUE(debts.AddsUp());
}

TEST(DebtTable, BeyondTheBoundANodeHasMoreThanIsListedUntilItIsListedAnew) {
  DebtTable debts(2);
  EXPECT_TRUE(debts.Free(kOne, DebtOf(9), RemoveTicket{3}));
  debts.Owe(kOne, DebtOf(1));
  debts.Owe(kOne, DebtOf(2));
  EXPECT_FALSE(debts.HasUnlisted(kOne)) << "what removals ask for is no debt";
  debts.Owe(kOne, DebtOf(2));
  EXPECT_FALSE(debts.HasUnlisted(kOne)) << "this one is";
  debts.Owe(kOne, DebtOf(3));
  EXPECT_TRUE(debts.HasUnlisted(kOne));
  EXPECT_FALSE(debts.IsOwed(kOne, DebtOf(3)));
  EXPECT_EQ(debts.DebtsOf(kOne), 2u);
  EXPECT_THAT(debts.Listable(), IsEmpty()) << "there is no room yet";
  const std::vector<uint64_t> ids = Send(debts, kOne);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_THAT(debts.Confirm(kOne, ids[0]), ElementsAre(RemoveTicket{3}));
  EXPECT_THAT(debts.Listable(), ElementsAre(kOne));
  debts.Move(kOne, kTwo);
  EXPECT_FALSE(debts.HasUnlisted(kOne));
  EXPECT_TRUE(debts.HasUnlisted(kTwo));
  debts.StartListing(kTwo);
  EXPECT_THAT(debts.Listable(), IsEmpty());
  EXPECT_TRUE(debts.HasUnlisted(kTwo)) << "nobody knows what the inventory will bring";
  debts.FinishListing(kTwo);
  EXPECT_FALSE(debts.HasUnlisted(kTwo));
  EXPECT_TRUE(debts.AddsUp());
}

TEST(DebtTable, DebtsAreThoseOfTheBytesWhateverTheirIdIs) {
  DebtTable debts(10);
  debts.Owe(kOne, DebtOf(1));
  EXPECT_TRUE(debts.Free(kOne, DebtOf(9), RemoveTicket{3}));
  debts.Move(kOne, kTwo);
  EXPECT_FALSE(debts.IsOwed(kOne, DebtOf(1)));
  EXPECT_TRUE(debts.IsOwed(kTwo, DebtOf(1)));
  EXPECT_THAT(debts.Drop(kOne), IsEmpty());
  EXPECT_TRUE(debts.AddsUp());
  const std::vector<uint64_t> ids = Send(debts, kTwo);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(debts.Find(ids[0])->items.size(), 2u);
  EXPECT_THAT(debts.Confirm(kTwo, ids[0]), ElementsAre(RemoveTicket{3}));
}

TEST(DebtTable, AddsUpWhateverHappens) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    DebtTable debts(20);
    Random random(seed);
    for (int step = 0; step < 500; ++step) {
      const NodeId node{static_cast<uint32_t>(1 + random.Below(3))};
      const Debt debt = DebtOf(random.Below(8), 1 + random.Below(4));
      switch (random.Below(9)) {
        case 0: (void)debts.Free(node, debt, RemoveTicket{1}); break;
        case 1: Send(debts, node); break;
        case 2:
          for (const uint64_t id : debts.Unconfirmed(node, kNow)) debts.Confirm(node, id);
          break;
        case 3:
          if (random.OneIn(10)) debts.Drop(node);
          break;
        case 6: {
          const NodeId other{static_cast<uint32_t>(1 + random.Below(3))};
          debts.Drop(other == node ? NodeId{4} : other);
          debts.Move(node, other);
          break;
        }
        case 4: (void)debts.Attach(debt.key_hash, RemoveTicket{2}); break;
        case 7: random.OneIn(2) ? debts.StartListing(node) : debts.FinishListing(node); break;
        case 5: debts.Owe(node, debt, Haste::kNow, kNow + absl::Seconds(1)); break;
        default: debts.Owe(node, debt); break;
      }
      ASSERT_TRUE(debts.AddsUp()) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace moonpool::master
