// Every way in which an object comes or goes is one event, and who follows them knows what is
// stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "master/core/testing/core_fixture.h"
#include "master/core/testing/event_follower.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;
using Reset = EventCursor::Reset;

class EventsTest : public ::testing::Test {
 protected:
  void Begin(CoreOptions options = {}) {
    options.node_loss_timeout = absl::Seconds(5);
    pool_ = std::make_unique<CoreFixture>(std::move(options));
    pool_->core.KeepEvents(true);
  }
  // What has happened since the last call, as "+key" and "-key cause".
  std::vector<std::string> News() {
    static constexpr const char* kCauses[] = {"evicted", "removed", "node lost", "expired",
                                              "aborted", "damaged", "superseded"};
    std::vector<std::string> news;
    const EventLog& log = pool_->core.events();
    for (; seen_ + 1 < log.next(); ++seen_) {
      const Event& event = log[seen_ + 1];
      news.push_back(
          event.kind == EventKind::kStored
              ? absl::StrCat("+", event.key)
              : absl::StrCat("-", event.key, " ", kCauses[static_cast<size_t>(event.cause)]));
    }
    return news;
  }
  CoreFixture& pool() { return *pool_; }
  void Put(absl::string_view key) { EXPECT_THAT(pool().Put(key, 100), IsOk()) << key; }

  std::unique_ptr<CoreFixture> pool_;
  uint64_t seen_ = 0;
};

TEST_F(EventsTest, ACommitSaysWhatIsStoredAndWhere) {
  Begin();
  pool().AddNode("n1", 10 * kBlock);
  Put("root");
  const Grant grant = pool().Grab("leaf", 100, {.parent = "root"});
  EXPECT_THAT(News(), ElementsAre("+root"));
  EXPECT_THAT(pool().Commit(grant), IsOk());
  EXPECT_THAT(pool().Commit(grant), IsOk());  // repeated: nothing new
  const Event leaf = pool().core.events()[2];
  EXPECT_EQ(leaf.key, "leaf");
  EXPECT_EQ(leaf.parent, "root");
  EXPECT_EQ(leaf.size_bytes, 100);
  EXPECT_EQ(leaf.generation, grant.generation);
  EXPECT_THAT(leaf.places, ElementsAre(EventPlace{.node = "n1", .medium = "dram"}));
  EXPECT_THAT(News(), ElementsAre("+leaf"));
}

TEST_F(EventsTest, AGrantThatComesToNothingIsNoEvent) {
  Begin();
  pool().AddNode("n1", 10 * kBlock);
  EXPECT_THAT(pool().Abort(pool().Grab("a", 100)), IsOk());
  pool().Grab("b", 100);
  pool().Advance(absl::Minutes(1));
  EXPECT_THAT(News(), IsEmpty());
}

TEST_F(EventsTest, AnEvictionIsOne) {
  Begin({.eviction_policy = "lru"});
  pool().AddNode("n1", 2 * kBlock);
  for (const char* key : {"a", "b", "c"}) EXPECT_THAT(pool().Put(key, kBlockPayload), IsOk());
  EXPECT_THAT(News(), ElementsAre("+a", "+b", "-a evicted", "+c"));
}

TEST_F(EventsTest, ARemovalIsOneHoweverOftenItIsAskedFor) {
  Begin();
  pool().AddNode("n1", 10 * kBlock);
  Put("a");
  pool().Remove("a");
  pool().Remove("a");
  pool().Remove("never");
  EXPECT_THAT(News(), ElementsAre("+a", "-a removed"));
}

TEST_F(EventsTest, ANodeThatIsAwayTakesItsObjectsAlongWhenItCountsAsLost) {
  Begin();
  const NodeHandle node = pool().AddNode("n1", 10 * kBlock);
  Put("a");
  pool().Disconnect(node);
  pool().Advance(absl::Seconds(4));
  EXPECT_THAT(News(), ElementsAre("+a"));
  pool().Advance(absl::Seconds(2));
  EXPECT_THAT(News(), ElementsAre("-a node lost"));
}

TEST_F(EventsTest, WhatStandsOnASecondNodeStaysWithoutAnEvent) {
  Begin();
  const NodeHandle node = pool().AddNode("n1", 10 * kBlock);
  pool().AddNode("n2", 10 * kBlock);
  EXPECT_THAT(pool().Put("a", 100, {.replicas = 2}), IsOk());
  EXPECT_THAT(pool().core.events()[1].places, testing::SizeIs(2));
  pool().Disconnect(node);
  pool().Advance(absl::Minutes(1));
  EXPECT_THAT(News(), ElementsAre("+a"));
}

TEST_F(EventsTest, DamageOfTheLastReplicaIsOne) {
  Begin();
  const NodeHandle node = pool().AddNode("n1", 10 * kBlock);
  const Grant grant = pool().Grab("a", 100);
  pool().Report(node, CoreFixture::Sealed("a", 100, grant, node.id));
  const LostPart lost[] = {{grant.generation, grant.replicas[0].parts[0].extent}};
  pool().core.PartsLost(node.id, node.session, lost, pool().now);
  pool().Advance(absl::Seconds(1));
  EXPECT_THAT(News(), ElementsAre("+a", "-a damaged"));
}

TEST_F(EventsTest, AdoptionIsOneAndANewerGenerationTakesThePlaceOfAnOlder) {
  Begin();
  const auto sealed = [](uint32_t counter, uint64_t offset) {
    return SealedPart{.generation = Generation::Of(Term{3}, counter),
                      .name_space = "default",
                      .key = "a",
                      .parent = "root",
                      .extent = {SegmentId{0}, offset, kBlock},
                      .object_bytes = kBlockPayload,
                      .part_count = 1};
  };
  const NodeHandle first = pool().Register(CoreFixture::Description("n1", {10 * kBlock}));
  pool().Inventory(first, {sealed(1, 0)});
  pool().Complete(first);
  EXPECT_THAT(News(), ElementsAre("+a"));
  EXPECT_EQ(pool().core.events()[1].parent, "root");
  const NodeHandle second = pool().Register(CoreFixture::Description("n2", {10 * kBlock}));
  pool().Inventory(second, {sealed(2, 0)});
  pool().Complete(second);
  EXPECT_THAT(News(), ElementsAre("-a superseded", "+a"));
}

TEST_F(EventsTest, NobodyListensAndNothingIsKept) {
  Begin();
  pool().core.KeepEvents(false);
  pool().AddNode("n1", 100 * kBlock);
  for (int i = 0; i < 20; ++i) Put(absl::StrCat("k", i));
  EXPECT_EQ(pool().core.events().size(), 0);
  EXPECT_EQ(pool().core.events().next(), 21);
  pool().core.KeepEvents(true);
  pool().Remove("k3");
  EXPECT_EQ(pool().core.events().first(), 21);
  EXPECT_EQ(pool().core.events()[21].key, "k3");
}

TEST_F(EventsTest, TheLogIsBounded) {
  Begin({.max_events = 4});
  pool().AddNode("n1", 100 * kBlock);
  for (int i = 0; i < 11; ++i) Put(absl::StrCat("k", i));
  const EventLog& log = pool().core.events();
  EXPECT_EQ(log.size(), 4);
  EXPECT_EQ(log.first(), 8);
  for (uint64_t n = log.first(); n < log.next(); ++n) {
    EXPECT_EQ(log[n].key, absl::StrCat("k", n - 1));
  }
}

// Texts go round and round in the log's memory: of all lengths, also longer than a piece of it.
TEST_F(EventsTest, WhatIsKeptKeepsItsText) {
  constexpr uint32_t kKept = 50;
  EventLog log(kKept, 1);
  log.Start();
  const auto text = [](uint64_t n, size_t most) {
    const size_t size = 1 + (n * 7919) % most;
    return absl::StrCat(n, std::string(size, static_cast<char>('a' + n % 26)));
  };
  const auto longest = [](uint64_t n) { return n % 97 == 0 ? 100'000 : 3'000; };
  for (uint64_t n = 1; n <= 2'000; ++n) {
    const std::string key = text(n, longest(n));
    const std::string parent = n % 3 == 0 ? "" : text(n + 1, 1'000);
    const std::string node = text(n, 20);
    Event event{.kind = n % 2 == 0 ? EventKind::kStored : EventKind::kRemoved,
                .cause = DeathCause::kDamaged,
                .name_space = static_cast<NamespaceId>(n),
                .size_bytes = n,
                .generation = Generation{n + 1},
                .key = key,
                .parent = parent};
    for (uint64_t i = 0; i < n % 4; ++i) event.places.push_back({.node = node, .medium = "dram"});
    log.Add(event);
    for (uint64_t old = log.first(); old < log.next(); ++old) {
      const Event kept = log[old];
      ASSERT_EQ(kept.key, text(old, longest(old)));
      ASSERT_EQ(kept.parent, old % 3 == 0 ? "" : text(old + 1, 1'000));
      ASSERT_EQ(kept.size_bytes, old);
      ASSERT_EQ(kept.generation.value, old + 1);
      ASSERT_EQ(kept.name_space, static_cast<NamespaceId>(old));
      ASSERT_EQ(kept.kind, old % 2 == 0 ? EventKind::kStored : EventKind::kRemoved);
      ASSERT_EQ(kept.places.size(), old % 4);
      for (const EventPlace& place : kept.places) {
        ASSERT_EQ(place, (EventPlace{.node = text(old, 20), .medium = "dram"}));
      }
    }
  }
  EXPECT_EQ(log.size(), kKept);
  log.Stop();
  EXPECT_EQ(log.size(), 0);
}

// --- Followers.

TEST_F(EventsTest, AFollowerBeginsWithWhatIsStored) {
  Begin();
  pool().AddNode("n1", 100 * kBlock);
  Put("a");
  Put("b");
  EventFollower follower;
  follower.CatchUp(pool().core);
  EXPECT_EQ(follower.resets(Reset::kStart), 1);
  EXPECT_THAT(follower.stored(), UnorderedElementsAre(Key("a"), Key("b")));
  pool().Remove("a");
  follower.CatchUp(pool().core);
  EXPECT_THAT(follower.stored(), UnorderedElementsAre(Key("b")));
}

TEST_F(EventsTest, WhatChangesDuringTheWalkIsRightAtItsEnd) {
  Begin({.snapshot_slots_per_call = 2});
  pool().AddNode("n1", 100 * kBlock);
  for (int i = 0; i < 10; ++i) Put(absl::StrCat("k", i));
  EventFollower follower;
  EXPECT_FALSE(follower.Advance(pool().core).is_whole);
  pool().Remove("k0");  // walked over already
  pool().Remove("k9");  // not yet
  Put("new");           // into the place of one of them
  pool().Remove("k5");
  Put("k5");
  follower.CatchUp(pool().core);
  EXPECT_TRUE(follower.last().is_whole);
  EXPECT_THAT(follower.stored(),
              UnorderedElementsAre(Key("k1"), Key("k2"), Key("k3"), Key("k4"), Key("k5"), Key("k6"),
                                   Key("k7"), Key("k8"), Key("new")));
}

TEST_F(EventsTest, ATokenThatTheLogReachesBringsExactlyWhatFollows) {
  Begin();
  pool().AddNode("n1", 100 * kBlock);
  Put("a");
  EventFollower before;
  before.CatchUp(pool().core);
  Put("b");
  pool().Remove("a");
  EventFollower after({.resume = before.last().last});
  after.CatchUp(pool().core);
  EXPECT_EQ(after.told(), 2);
  EXPECT_THAT(after.stored(), UnorderedElementsAre(Key("b")));
  EXPECT_TRUE(after.last().is_whole);
}

TEST_F(EventsTest, ATokenThatIsTooOldOrOfAnotherLogBeginsAnew) {
  Begin({.max_events = 2});
  pool().AddNode("n1", 100 * kBlock);
  EventFollower before;
  before.CatchUp(pool().core);
  for (const char* key : {"a", "b", "c"}) Put(key);
  EventFollower old({.resume = before.last().last});
  old.CatchUp(pool().core);
  EXPECT_EQ(old.resets(Reset::kTooOld), 1);
  EXPECT_THAT(old.stored(), UnorderedElementsAre(Key("a"), Key("b"), Key("c")));

  EventToken foreign = old.last().last;
  ++foreign.log;
  EventFollower other({.resume = foreign});
  other.CatchUp(pool().core);
  EXPECT_EQ(other.resets(Reset::kOtherLog), 1);
  EXPECT_EQ(other.stored(), old.stored());

  EventToken ahead = old.last().last;
  ++ahead.sequence;  // of what has not happened yet
  EventFollower early({.resume = ahead});
  early.CatchUp(pool().core);
  EXPECT_EQ(early.resets(Reset::kTooOld), 1);
}

TEST_F(EventsTest, WhoIsTooSlowBeginsAnew) {
  Begin({.max_events = 2});
  pool().AddNode("n1", 100 * kBlock);
  EventFollower follower;
  follower.CatchUp(pool().core);
  for (const char* key : {"a", "b", "c"}) Put(key);
  pool().Remove("a");
  follower.CatchUp(pool().core);
  EXPECT_EQ(follower.resets(Reset::kTooSlow), 1);
  EXPECT_THAT(follower.stored(), UnorderedElementsAre(Key("b"), Key("c")));
}

TEST_F(EventsTest, OneNamespaceAlsoWhenItComesLater) {
  Begin();
  pool().AddNode("n1", 100 * kBlock);
  EventFollower follower({.name_space = "toy"});
  follower.CatchUp(pool().core);
  EXPECT_TRUE(follower.last().is_whole);
  Put("a");
  ASSERT_THAT(pool().core.OpenNamespace("toy", "layout", pool().now), IsOk());
  const PutKey keys[] = {{.key = "b", .size_bytes = 100}};
  const Caller toy{.name_space = "toy"};
  const auto outcomes =
      pool().core.StartPuts({.caller = toy, .request_id = 1, .puts = keys}, pool().now);
  const Grant& grant = *outcomes->front().grant;
  const CommitPut commit[] = {{grant.generation, grant.handle}};
  ASSERT_THAT(pool().core.CommitPuts(toy, commit, pool().now), IsOk());
  follower.CatchUp(pool().core);
  EXPECT_THAT(follower.stored(), UnorderedElementsAre(Key("b")));
  EventFollower late({.name_space = "toy"});
  late.CatchUp(pool().core);
  EXPECT_THAT(late.stored(), UnorderedElementsAre(Key("b")));
}

TEST_F(EventsTest, WhoWantsNoWalkHearsWhatHappensFromNowOn) {
  Begin({.max_events = 2});
  pool().AddNode("n1", 100 * kBlock);
  Put("old");
  EventFollower follower({.is_live_only = true});
  follower.CatchUp(pool().core);
  Put("a");
  follower.CatchUp(pool().core);
  EXPECT_THAT(follower.stored(), UnorderedElementsAre(Key("a")));
  for (const char* key : {"b", "c", "d"}) Put(key);
  follower.CatchUp(pool().core);
  EXPECT_EQ(follower.resets(Reset::kTooSlow), 1);
  EXPECT_THAT(follower.stored(), IsEmpty());
}

}  // namespace
}  // namespace moonpool::master
