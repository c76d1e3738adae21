// Grants, commits, aborts and deadlines (R1, R4, R13, R14).
#include <string>
#include <vector>

#include "master/core/testing/core_fixture.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(Put, IsReadableAfterItsCommitAndNotBefore) {
  CoreFixture pool;
  const NodeHandle node = pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("key", kBlockPayload);
  EXPECT_THAT(pool.Get("key").status, Fails(StatusCode::kNotFound, ErrorReason::kBeingWritten));
  EXPECT_THAT(pool.Commit(grant), IsOk());
  const LocateOutcome found = pool.Get("key");
  ASSERT_THAT(found.status, IsOk());
  EXPECT_EQ(found.location.generation, grant.generation);
  EXPECT_EQ(found.location.size_bytes, kBlockPayload);
  ASSERT_EQ(found.location.replicas.size(), 1u);
  EXPECT_EQ(found.location.replicas[0].parts, grant.replicas[0].parts);
  EXPECT_EQ(found.location.replicas[0].parts[0].node, node.id);
  EXPECT_EQ(found.location.lease, absl::ZeroDuration());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Put, OfNoBytesIsAnObject) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  EXPECT_THAT(pool.Put("empty", 0), IsOk());
  const LocateOutcome found = pool.Get("empty");
  ASSERT_THAT(found.status, IsOk());
  EXPECT_EQ(found.location.replicas[0].parts[0].extent.length, kPartHeaderBytes);
}

TEST(Put, GenerationsGrowAndCarryTheTerm) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const Grant first = pool.Grab("a", 1);
  const Grant second = pool.Grab("b", 1);
  EXPECT_EQ(first.generation.term(), Term{7});
  EXPECT_LT(first.generation, second.generation);
  pool.core.RaiseTerm(Term{9});
  EXPECT_EQ(pool.Grab("c", 1).generation.term(), Term{10});
}

TEST(Put, ASecondWriterIsToldWhatIsGoingOn) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const Grant grant = pool.Grab("key", 10);
  PutOutcome second = pool.Start("key", 10, {.client_id = 2});
  EXPECT_THAT(second.status, Fails(StatusCode::kAborted, ErrorReason::kBeingWritten));
  EXPECT_EQ(second.wait, Wait::kNone);
  EXPECT_EQ(pool.Start("key", 10, {.client_id = 2, .waits = true}).wait, Wait::kWriter);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  second = pool.Start("key", 10, {.client_id = 2, .waits = true});
  EXPECT_THAT(second.status, Fails(StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  EXPECT_EQ(second.existing_generation, grant.generation);
  EXPECT_EQ(second.wait, Wait::kNone);
}

TEST(Put, TheSameRequestGetsTheSameGrantAgain) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const Grant first = pool.Grab("key", 10, {.request_id = 5});
  const Grant again = pool.Grab("key", 10, {.request_id = 5});
  EXPECT_EQ(first.generation, again.generation);
  EXPECT_EQ(first.replicas[0].parts, again.replicas[0].parts);
  EXPECT_FALSE(pool.Start("key", 10, {.request_id = 6}).status.ok());
  EXPECT_FALSE(pool.Start("key", 10, {.client_id = 2, .request_id = 5}).status.ok());
}

TEST(Put, ARequestIdThatIsUsedAgainForAnotherSizeGetsNoGrantOfTheOldOne) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  pool.Grab("key", 10, {.request_id = 5});
  EXPECT_THAT(pool.Start("key", 11, {.request_id = 5}).status,
              Fails(absl::StatusCode::kAborted, ErrorReason::kBeingWritten));
}

TEST(Put, ABatchMayNotNameAKeyTwice) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  const PutKey keys[] = {{"a", 1}, {"b", 1}, {"a", 1}};
  const auto outcomes =
      *pool.core.StartPuts({.caller = pool.Me(), .request_id = 1, .puts = keys}, pool.now);
  EXPECT_THAT(outcomes[0].status, IsOk());
  EXPECT_THAT(outcomes[1].status, IsOk());
  EXPECT_THAT(outcomes[2].status, Fails(StatusCode::kInvalidArgument, ErrorReason::kDuplicateKey));
}

TEST(Put, BadKeysAreRefusedOneByOne) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  EXPECT_THAT(pool.Put("", 1), Fails(StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  const std::string longest(kMaxKeyBytes, 'k');
  EXPECT_THAT(pool.Put(longest, 1), IsOk());
  EXPECT_THAT(pool.Put(longest + "k", 1),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong));
  EXPECT_THAT(pool.Put("a", 1, {.parent = longest + "k"}),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong));
  EXPECT_THAT(pool.Put("a", 1, {.parent = "a"}),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(pool.Put(std::string("\0\xff", 2), 1), IsOk()) << "keys are any bytes";
}

TEST(Put, ABatchThatIsTooLargeFailsAsAWhole) {
  CoreFixture pool;
  const std::vector<PutKey> keys(kMaxBatchKeys + 1, PutKey{"a", 1});
  EXPECT_THAT(pool.core.StartPuts({.puts = keys}, pool.now),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));
  const std::vector<absl::string_view> names(kMaxBatchKeys + 1, "a");
  EXPECT_THAT(pool.core.Exists({}, names, pool.now),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));
}

TEST(Put, IntoAnUnknownNamespaceFailsAsAWhole) {
  CoreFixture pool;
  const PutKey keys[] = {{"a", 1}};
  const StartPutsCommand command{.caller = {.name_space = "nowhere"}, .puts = keys};
  EXPECT_THAT(pool.core.StartPuts(command, pool.now),
              Fails(StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
  ASSERT_TRUE(pool.core.OpenNamespace("nowhere", "f", pool.now).ok());
  EXPECT_TRUE(pool.core.StartPuts(command, pool.now).ok());
}

TEST(Put, LargerThanThePoolIsRefusedAtOnce) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  for (const uint64_t size : {10 * kBlock, ~uint64_t{0}, ~uint64_t{0} - 32}) {
    const PutOutcome outcome = pool.Start("key", size, {.waits = true});
    EXPECT_THAT(outcome.status, Fails(StatusCode::kInvalidArgument, ErrorReason::kValueTooLarge));
    EXPECT_EQ(outcome.wait, Wait::kNone);
  }
  EXPECT_THAT(pool.Put("key", 10 * kBlock - kPartHeaderBytes), IsOk());
}

TEST(Put, OnlyAYoungMasterSaysWhenToComeBackForNodes) {
  CoreFixture pool;
  const auto retry_after = [&] { return DetailOf(pool.Put("key", 1))->retry_after; };
  EXPECT_GT(retry_after(), absl::ZeroDuration());
  pool.Advance(absl::Minutes(1));
  EXPECT_EQ(retry_after(), absl::ZeroDuration());
}

TEST(Put, WithoutNodesMayWaitForOne) {
  CoreFixture pool;
  const PutOutcome outcome = pool.Start("key", 1, {.waits = true});
  EXPECT_THAT(outcome.status, Fails(StatusCode::kUnavailable, ErrorReason::kNoNodes));
  EXPECT_EQ(outcome.wait, Wait::kSpace);
  const uint64_t before = pool.core.change_count();
  pool.AddNode("n1", kBlock);
  EXPECT_NE(pool.core.change_count(), before);
  EXPECT_THAT(pool.Put("key", 1), IsOk());
}

TEST(Grant, EndsAtItsDeadlineAndFreesItsBytes) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  const Grant grant = pool.Grab("key", kBlockPayload, {.timeout = absl::Seconds(3)});
  EXPECT_EQ(grant.remaining, absl::Seconds(3));
  pool.Advance(absl::Seconds(2));
  EXPECT_THAT(pool.Put("other", kBlockPayload),
              Fails(StatusCode::kResourceExhausted, ErrorReason::kNoSpace));
  pool.Advance(absl::Seconds(1));
  EXPECT_THAT(pool.Commit(grant), Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool.Get("key").status, Fails(StatusCode::kNotFound, ErrorReason::kExpired));
  EXPECT_THAT(pool.Put("other", kBlockPayload), IsOk());
}

TEST(Grant, LastsNoLongerThanTheMasterAllows) {
  CoreFixture pool({.max_grant = absl::Seconds(4)});
  pool.AddNode("n1", kBlock);
  EXPECT_EQ(pool.Grab("key", 1, {.timeout = absl::Hours(1)}).remaining, absl::Seconds(4));
}

TEST(Grant, ThatRanOutMakesRoomEvenBeforeTheNextTick) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  pool.Grab("key", kBlockPayload, {.timeout = absl::Seconds(1)});
  pool.now += absl::Seconds(1);
  EXPECT_THAT(pool.Put("other", kBlockPayload), IsOk());
}

TEST(Grant, AbortedFreesAtOnceExceptWhatIsPinned) {
  CoreFixture pool({.condemn_duration = absl::Seconds(1)});
  pool.AddNode("n1", 2 * kBlock);
  const Grant first = pool.Grab("a", kBlockPayload);
  const Grant second = pool.Grab("b", kBlockPayload);
  EXPECT_THAT(pool.Abort(first), IsOk());
  EXPECT_THAT(pool.Abort(first), IsOk()) << "may be repeated";
  EXPECT_THAT(pool.Commit(first), Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool.Put("c", kBlockPayload), IsOk());
  ASSERT_THAT(pool.Remove("c").status, IsOk());
  EXPECT_THAT(pool.Put("c", kBlockPayload), IsOk());
  EXPECT_THAT(pool.Abort(second, {second.replicas[0].parts[0]}), IsOk());
  EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, kBlock);
  const Grant d = pool.Grab("d", kBlockPayload);  // evicts c instead of using what is pinned
  EXPECT_NE(d.replicas[0].parts[0].extent.offset, second.replicas[0].parts[0].extent.offset);
  pool.Advance(absl::Seconds(1));
  EXPECT_EQ(pool.core.GetStatus(pool.now).condemned_bytes, 0u);
  EXPECT_THAT(pool.Put("e", kBlockPayload), IsOk());
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Commit, MayBeRepeated) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  const Grant grant = pool.Grab("key", 1);
  EXPECT_THAT(pool.Commit(grant), IsOk());
  EXPECT_THAT(pool.Commit(grant), IsOk());
  EXPECT_THAT(pool.Abort(grant), StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(pool.Get("key").status, IsOk());
}

TEST(Commit, OfANumberThatNobodyHasIsAborted) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  EXPECT_THAT(pool.Commit(Grant{.generation = Generation{1}, .handle = 12345}),
              Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
  const Grant grant = pool.Grab("key", 1);
  EXPECT_THAT(pool.Commit(Grant{.generation = Generation{1}, .handle = grant.handle}),
              Fails(StatusCode::kAborted, ErrorReason::kGrantAborted));
}

TEST(Commit, WithFailedReplicasNeedsTheLeastNumber) {
  CoreFixture pool;
  for (const char* name : {"n1", "n2", "n3"}) pool.AddNode(name, 10 * kBlock);
  const Grant one = pool.Grab("a", 10, {.replicas = 3, .min_replicas = 2});
  EXPECT_THAT(pool.Commit(one, {1}), IsOk());
  const Location left = pool.Get("a").location;
  ASSERT_EQ(left.replicas.size(), 2u);
  EXPECT_EQ(left.replicas[0].parts, one.replicas[0].parts);
  EXPECT_EQ(left.replicas[1].parts, one.replicas[2].parts);
  const Grant two = pool.Grab("b", 10, {.replicas = 3, .min_replicas = 2});
  EXPECT_THAT(pool.Commit(two, {0, 2}), Fails(StatusCode::kAborted, ErrorReason::kReplicasUnmet));
  EXPECT_THAT(pool.Get("b").status, Fails(StatusCode::kNotFound, ErrorReason::kGrantAborted));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Replicas, FewerThanAskedForOnlyIfTheCallerAgrees) {
  CoreFixture pool;
  pool.AddNode("n1", 10 * kBlock);
  EXPECT_THAT(pool.Put("a", 1, {.replicas = 2}),
              Fails(StatusCode::kResourceExhausted, ErrorReason::kNoNodes));
  EXPECT_EQ(pool.Grab("a", 1, {.replicas = 2, .min_replicas = 1}).replicas.size(), 1u);
  EXPECT_THAT(pool.Put("b", 1, {.replicas = 1, .min_replicas = 2}),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(pool.Put("b", 1, {.replicas = 9}),
              Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

TEST(Limits, OpenGrantsAndObjects) {
  CoreFixture pool({.max_objects = 3, .max_open_grants = 1});
  pool.AddNode("n1", 100 * kBlock);
  const Grant grant = pool.Grab("a", 1);
  const PutOutcome refused = pool.Start("b", 1, {.waits = true});
  EXPECT_THAT(refused.status, Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_EQ(refused.wait, Wait::kSpace);
  ASSERT_THAT(pool.Commit(grant), IsOk());
  EXPECT_THAT(pool.Put("b", 1), IsOk());
  EXPECT_THAT(pool.Put("c", 1), IsOk());
  EXPECT_THAT(pool.Put("d", 1), Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_THAT(pool.core.CheckInvariants(), IsOk());
}

TEST(Refusals, SayWhatToDoNext) {
  CoreFixture pool;
  pool.AddNode("n1", kBlock);
  const auto hint = [](const absl::Status& status) {
    return DetailOf(status).value_or(ErrorDetail()).hint;
  };
  EXPECT_THAT(hint(pool.Put("", 1)), HasSubstr("1 to 1024 bytes"));
  ASSERT_THAT(pool.Put("a", 1), IsOk());
  EXPECT_THAT(hint(pool.Put("a", 1)), HasSubstr("remove it first"));
  const absl::Status too_large = pool.Put("b", 2 * kBlock);
  EXPECT_THAT(too_large.message(), HasSubstr("1 replica of it cannot fit"));
  EXPECT_THAT(hint(too_large), HasSubstr("add nodes"));
  EXPECT_THAT(hint(pool.core.ForgetNode("n2", pool.now).status()), HasSubstr("moonpool nodes"));
  EXPECT_THAT(hint(pool.core.Why("nobody", "a", pool.now).status()), HasSubstr("moonpool status"));
}

}  // namespace
}  // namespace moonpool::master
