// The layout fingerprint of a namespace travels with its parts.
#include <algorithm>
#include <string>
#include <vector>

#include "common/names.h"
#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

// As an older master granted it.
SealedPart OldPart(absl::string_view name_space, absl::string_view key, uint32_t counter) {
  return SealedPart{.generation = Generation::Of(Term{5}, counter),
                    .name_space = name_space,
                    .key = key,
                    .extent = {SegmentId{0}, counter * kBlock, 10 + kPartHeaderBytes},
                    .object_bytes = 10};
}

NodeHandle RegisterOldNode(CoreFixture& pool) {
  RegisterNodeCommand description = CoreFixture::Description("n1", {10 * kBlock});
  description.highest_term_seen = Term{5};
  return pool.Register(description);
}

bool Names(const std::vector<FreeCommand>& frees, Generation generation) {
  return std::any_of(frees.begin(), frees.end(), [&](const FreeCommand& free) {
    const auto& all = free.generations;
    return std::find(all.begin(), all.end(), generation) != all.end();
  });
}

Caller In(absl::string_view name_space) {
  return Caller{.client_id = 1, .name_space = name_space, .timeout = absl::Seconds(10)};
}

absl::Status ExistsIn(CoreFixture& pool, absl::string_view name_space, absl::string_view key) {
  const absl::string_view keys[] = {key};
  const auto results = pool.core.Exists(In(name_space), keys, pool.now);
  return results.ok() ? results->front() : results.status();
}

// A master without a memory learns it from the nodes, before anybody can claim another.
TEST(Layout, ComesBackWithTheParts) {
  CoreFixture pool;
  const NodeHandle n1 = RegisterOldNode(pool);
  const std::string layout_a = JoinPartNamespace({"ns", "A"});
  pool.Inventory(n1, {OldPart(layout_a, "a", 1)});
  pool.Complete(n1);
  EXPECT_THAT(pool.core.OpenNamespace("ns", "B", pool.now),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  EXPECT_THAT(ExistsIn(pool, "ns", "a"), IsOk());
  EXPECT_EQ(pool.core.OpenNamespace("ns", "", pool.now)->fingerprint, "A");
}

TEST(Layout, APartOfAnotherOneIsNotAdoptedButForgotten) {
  for (const PartNamespace& wrong : {PartNamespace{"ns", "A"}, PartNamespace{"ns", ""}}) {
    CoreFixture pool;
    ASSERT_THAT(pool.core.OpenNamespace("ns", "B", pool.now), IsOk());
    const NodeHandle n1 = RegisterOldNode(pool);
    const std::string name_space = JoinPartNamespace(wrong);
    const SealedPart whole = OldPart(name_space, "a", 1);
    SealedPart half = OldPart(name_space, "b", 2);
    half.part_count = 2;
    half.extent.length = 5 + kPartHeaderBytes;
    pool.Inventory(n1, {whole, half});
    pool.Complete(n1);
    for (const char* key : {"a", "b"}) {
      EXPECT_THAT(ExistsIn(pool, "ns", key), StatusIs(absl::StatusCode::kNotFound));
    }
    EXPECT_TRUE(pool.TakeFrees().empty()) << "an older leader may have leased it to its readers";
    EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, 2u * 128);
    pool.Advance(absl::Seconds(3));
    const std::vector<FreeCommand> frees = pool.TakeFrees();
    EXPECT_TRUE(Names(frees, whole.generation));
    EXPECT_TRUE(Names(frees, half.generation));
    EXPECT_EQ(pool.core.GetStatus(pool.now).totals.other_layouts, 2u);
  }
}

// Whoever reaches a data port can seal something, in the term of the present master.
TEST(Layout, IsNotClaimedByAForgedPart) {
  CoreFixture pool;
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const Grant given_up = pool.Grab("x", 10);
  ASSERT_THAT(pool.Abort(given_up), IsOk());
  const std::string forged = JoinPartNamespace({"ns", "forged"});
  SealedPart part = OldPart(forged, "a", 1);
  part.generation = given_up.generation;
  pool.Report(n1, {part});
  part.generation = Generation::Of(pool.core.term(), 1000);
  pool.Report(n1, {part});
  EXPECT_TRUE(Names(pool.TakeFrees(), part.generation));
  EXPECT_EQ(pool.core.OpenNamespace("ns", "A", pool.now)->fingerprint, "A");
}

// What a writer seals is committed by its node's report when it is of the layout that was opened.
TEST(Layout, OnlyItsOwnSealsCommit) {
  CoreFixture pool;
  ASSERT_THAT(pool.core.OpenNamespace("ns", "A", pool.now), IsOk());
  const NodeHandle n1 = pool.AddNode("n1", 10 * kBlock);
  const PutKey keys[] = {{.key = "a", .size_bytes = 10}};
  const auto started = pool.core.StartPuts(
      StartPutsCommand{.caller = In("ns"), .request_id = 1, .puts = keys}, pool.now);
  ASSERT_THAT(started, IsOk());
  ASSERT_TRUE(started->front().grant.has_value());
  std::vector<SealedPart> sealed = CoreFixture::Sealed("a", 10, *started->front().grant, n1.id);
  const std::string other = JoinPartNamespace({"ns", "B"});
  sealed[0].name_space = other;
  pool.Report(n1, sealed);
  EXPECT_THAT(ExistsIn(pool, "ns", "a"), StatusIs(absl::StatusCode::kNotFound));
  const std::string own = JoinPartNamespace({"ns", "A"});
  sealed[0].name_space = own;
  pool.Report(n1, sealed);
  EXPECT_THAT(ExistsIn(pool, "ns", "a"), IsOk());
}

}  // namespace
}  // namespace moonpool::master
