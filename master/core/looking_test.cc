// Locate in batches and chains, listings, status, and why.
#include <set>
#include <string>
#include <vector>

#include "master/core/testing/core_fixture.h"
#include "master/core/testing/old_parts.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(Locate, AnswersEveryKeyInOrder) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", 1), IsOk());
  ASSERT_THAT(pool.Put("b", 2), IsOk());
  const absl::string_view keys[] = {"b", "x", "a", "b", ""};
  const auto found = *pool.core.Locate({.caller = pool.Me(), .keys = keys}, pool.now);
  EXPECT_EQ(found[0].location.size_bytes, 2u);
  EXPECT_THAT(found[1].status, Fails(StatusCode::kNotFound, ErrorReason::kNeverStored));
  EXPECT_EQ(found[2].location.size_bytes, 1u);
  EXPECT_EQ(found[3].location.size_bytes, 2u);
  EXPECT_THAT(found[4].status, Fails(StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
}

TEST(Locate, MayWaitForAWriter) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("a", 1);
  const absl::string_view keys[] = {"a"};
  LocateCommand command{.caller = pool.Me(), .keys = keys};
  EXPECT_EQ(pool.core.Locate(command, pool.now)->front().wait, Wait::kNone);
  command.wait_for_writer = true;
  EXPECT_EQ(pool.core.Locate(command, pool.now)->front().wait, Wait::kWriter);
  const uint64_t before = pool.core.change_count();
  ASSERT_THAT(pool.Commit(grant), IsOk());
  EXPECT_NE(pool.core.change_count(), before);
  EXPECT_THAT(pool.core.Locate(command, pool.now)->front().status, IsOk());
}

TEST(MatchPrefix, StopsAtTheFirstMiss) {
  CoreFixture pool({.max_lease = absl::Seconds(10), .leased_fraction = 1.0});
  pool.AddNode("n1", 10 * kBlock);
  for (const char* key : {"a", "b", "d"}) ASSERT_THAT(pool.Put(key, 1), IsOk());
  const absl::string_view keys[] = {"a", "b", "c", "d"};
  const auto match = *pool.core.MatchPrefix(
      {.caller = pool.Me(), .keys = keys, .lease = absl::Seconds(2)}, pool.now);
  EXPECT_EQ(match.locations.size(), 2u);
  EXPECT_EQ(match.locations[1].lease, absl::Seconds(2));
  EXPECT_THAT(match.miss, Fails(StatusCode::kNotFound, ErrorReason::kNeverStored));
  EXPECT_EQ(DetailOf(match.miss)->key, "c");
  const auto all = *pool.core.MatchPrefix({.caller = pool.Me(), .keys = {keys, 2}}, pool.now);
  EXPECT_EQ(all.locations.size(), 2u);
  EXPECT_THAT(all.miss, IsOk());
}

TEST(Namespaces, KeepTheirKeysApart) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  ASSERT_TRUE(pool.core.OpenNamespace("team", "f", pool.now).ok());
  ASSERT_THAT(pool.Put("a", 1), IsOk());
  const absl::string_view keys[] = {"a"};
  const Caller team{.name_space = "team"};
  EXPECT_FALSE(pool.core.Exists(team, keys, pool.now)->front().ok());
  EXPECT_FALSE(pool.core.Remove(team, keys, pool.now)->front().status.ok());
  EXPECT_TRUE(pool.core.ListObjects({.caller = team}, pool.now)->objects.empty());
  EXPECT_THAT(pool.Exists("a"), IsOk());
}

TEST(ListObjects, PagesThroughThePrefixInBoundedSteps) {
  CoreFixture pool({.list_slots_per_call = 16});
  pool.AddNode("n1", 100 * kBlock);
  std::set<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const std::string key = absl::StrCat(i % 2 == 0 ? "even" : "odd", i);
    ASSERT_THAT(pool.Put(key, 1), IsOk());
    if (i % 2 == 0) expected.insert(key);
  }
  std::set<std::string> listed;
  ListObjectsCommand command{.caller = pool.Me(), .prefix = "even", .limit = 5};
  std::string token;
  int pages = 0;
  do {
    const auto page = *pool.core.ListObjects(command, pool.now);
    EXPECT_LE(page.objects.size(), 5u);
    for (const ObjectEntry& entry : page.objects) EXPECT_TRUE(listed.insert(entry.key).second);
    token = page.next_page_token;
    command.page_token = token;
  } while (!token.empty() && ++pages < 100);
  EXPECT_EQ(listed, expected);
  command.page_token = "nonsense";
  EXPECT_THAT(pool.core.ListObjects(command, pool.now),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

TEST(ListObjects, SaysWhatThereIsToKnow) {
  CoreFixture pool({.max_lease = absl::Seconds(10), .leased_fraction = 1.0});
  pool.AddNode("n1", 100 * kBlock);
  pool.AddNode("n2", 100 * kBlock);
  ASSERT_THAT(pool.Put("root", 5), IsOk());
  ASSERT_THAT(pool.Put("leaf", 7, {.parent = "root", .replicas = 2}), IsOk());
  pool.Get("leaf", absl::Seconds(9));
  pool.Advance(absl::Seconds(3));
  const auto objects = pool.core.ListObjects({.caller = pool.Me()}, pool.now)->objects;
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0].key, "root");
  EXPECT_EQ(objects[0].children, 1u);
  EXPECT_EQ(objects[1].parent, "root");
  EXPECT_EQ(objects[1].replicas, 2u);
  EXPECT_EQ(objects[1].parts, 2u);
  EXPECT_EQ(objects[1].nodes.size(), 2u);
  EXPECT_EQ(objects[1].age, absl::Seconds(3));
  EXPECT_TRUE(objects[1].is_leased);
}

TEST(Why, TellsTheStateOfAKey) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  const auto why = [&](absl::string_view key) { return *pool.core.Why("", key, pool.now); };
  EXPECT_EQ(why("a").state, "never_stored");
  const Grant grant = pool.Grab("a", kBlockPayload);
  EXPECT_EQ(why("a").state, "being_written");
  ASSERT_THAT(pool.Commit(grant), IsOk());
  EXPECT_EQ(why("a").state, "stored");
  EXPECT_EQ(why("a").replicas.size(), 1u);
  ASSERT_THAT(pool.Put("b", kBlockPayload), IsOk());
  pool.Advance(absl::Seconds(2));
  EXPECT_EQ(why("a").state, "evicted");
  EXPECT_EQ(why("a").policy, "cohort");
  EXPECT_EQ(why("a").ago, absl::Seconds(2));
  EXPECT_EQ(why("a").generation, grant.generation);
  pool.Remove("b");
  EXPECT_EQ(why("b").state, "removed");
  pool.Grab("c", 1, {.timeout = absl::Seconds(1)});
  pool.Advance(absl::Seconds(1));
  EXPECT_EQ(why("c").state, "expired");
  ASSERT_THAT(pool.Abort(pool.Grab("d", 1)), IsOk());
  EXPECT_EQ(why("d").state, "refused");
}

TEST(Why, TimesAreForPeople) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  const auto why = [&] { return pool.core.Why("", "a", pool.now)->explanation; };
  const Grant grant = pool.Grab("a", 10, {.timeout = absl::Seconds(3)});
  pool.Advance(absl::Nanoseconds(1'234'567'891));
  EXPECT_EQ(why(), "a writer holds a grant for 1.7s more");
  ASSERT_THAT(pool.Commit(grant), IsOk());
  pool.Advance(absl::Nanoseconds(61'234'567'891));
  EXPECT_EQ(why(), "stored 1m 1s ago, 1 of 1 replicas on nodes that are up");
  pool.Remove("a");
  pool.Advance(absl::Nanoseconds(2'345'678'901));
  EXPECT_EQ(why(), "removed 2.3s ago");
  EXPECT_THAT(pool.core.Why("nowhere", "a", pool.now),
              Fails(StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
}

TEST(Why, NobodyClaimsToKnowWhenAnAdoptedObjectWasStored) {
  CoreFixture pool;
  const NodeHandle n1 = pool.Register(OldNode("n1"));
  pool.Inventory(n1, {OldPart("a", 0)});
  pool.Complete(n1);
  ASSERT_THAT(pool.Put("b", 10), IsOk());
  pool.Advance(absl::Seconds(2));
  const WhyResult adopted = *pool.core.Why("", "a", pool.now);
  EXPECT_TRUE(adopted.is_adopted);
  EXPECT_THAT(adopted.explanation,
              testing::StartsWith("stored under an earlier master, known since its node reported "
                                  "it 2.0s ago, 1 of 1 replicas"));
  const WhyResult own = *pool.core.Why("", "b", pool.now);
  EXPECT_FALSE(own.is_adopted);
  EXPECT_THAT(own.explanation, testing::StartsWith("stored 2.0s ago, "));
}

TEST(Why, AnUnknownKeyMayStillBeReported) {
  CoreFixture pool;
  pool.Register(CoreFixture::Description("n1", {kBlock}));
  EXPECT_THAT(pool.core.Why("", "a", pool.now)->explanation, HasSubstr("still reporting"));
}

TEST(Status, AddsUp) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  ASSERT_THAT(pool.Put("a", kBlockPayload), IsOk());
  pool.Grab("b", 2 * kBlock - kPartHeaderBytes);
  const StatusResult status = pool.core.GetStatus(pool.now);
  EXPECT_EQ(status.nodes_up, 1u);
  EXPECT_EQ(status.objects, 1u);
  EXPECT_EQ(status.open_grants, 1u);
  EXPECT_EQ(status.used_bytes, 3 * kBlock);
  EXPECT_EQ(status.granted_bytes, 2 * kBlock);
  EXPECT_EQ(status.capacity_bytes, 10 * kBlock);
  ASSERT_EQ(status.namespaces.size(), 1u);
  EXPECT_EQ(status.namespaces[0].bytes, kBlock);
  pool.Advance(absl::Seconds(2));
  const auto nodes = pool.core.ListNodes(pool.now);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].last_heard, absl::Seconds(2));
  EXPECT_EQ(nodes[0].segments[0].largest_free_bytes, 7 * kBlock);
}

}  // namespace
}  // namespace moonpool::master
