#include "client_sdk/core/put_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/testing/fake_pool.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class PutPathTest : public ::testing::Test {
 protected:
  absl::Status Put(const std::string& key, const std::string& value,
                   const PutOptions& options = {}) {
    return pool_.Put(*client_, key, value, options);
  }
  std::string Get(const std::string& key) {
    const absl::StatusOr<std::string> value = pool_.NewClient()->Get(key, {});
    return value.ok() ? *value : Describe(value.status());
  }

  FakePool pool_{{"n1", "n2", "n3"}};
  std::unique_ptr<CoreClient> client_ = pool_.NewClient();
};

TEST_F(PutPathTest, ABatchCostsTwoCalls) {
  const std::string parts[] = {"first ", "second"};
  const std::vector<PutItem> items = {{.key = "a", .value = {BytesOf(parts[0]), BytesOf(parts[1])}},
                                      {.key = "b", .value = {BytesOf("beta")}, .parent = "a"},
                                      {.key = "empty"}};
  for (const absl::Status& status : client_->PutMany(items, {})) EXPECT_THAT(status, IsOk());
  EXPECT_EQ(pool_.master.calls(), 2);
  EXPECT_EQ(Get("a"), "first second");
  EXPECT_EQ(Get("b"), "beta");
  EXPECT_EQ(Get("empty"), "");
  EXPECT_EQ(client_->stats().puts, 3u);
  EXPECT_EQ(client_->stats().put_bytes, 16u);
}

TEST_F(PutPathTest, BadItemsDoNotFailOthers) {
  const std::vector<PutItem> items = {
      {.key = "", .value = {BytesOf("x")}},
      {.key = std::string(1025, 'k'), .value = {BytesOf("x")}},
      {.key = "a", .value = {BytesOf("first")}},
      {.key = "a", .value = {BytesOf("second")}},
      {.key = "c", .value = {BytesOf("x")}, .parent = std::string(1025, 'p')}};
  const auto results = client_->PutMany(items, {});
  EXPECT_THAT(results[0], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  EXPECT_THAT(results[1], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong));
  EXPECT_THAT(results[2], IsOk());
  EXPECT_THAT(results[3], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kDuplicateKey));
  EXPECT_THAT(results[4], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong));
  EXPECT_EQ(Get("a"), "first");
}

TEST_F(PutPathTest, TheFirstPutWins) {
  EXPECT_THAT(Put("a", "first"), IsOk());
  EXPECT_THAT(Put("a", "second"),
              Fails(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  EXPECT_EQ(Get("a"), "first");
}

TEST_F(PutPathTest, WritesStripedReplicasToSeveralNodes) {
  pool_.master.stripe_bytes = 4;
  EXPECT_THAT(Put("a", "0123456789", {.replicas = 2}), IsOk());
  EXPECT_THAT(pool_.master.NodesOf("a"), SizeIs(6));
  EXPECT_EQ(Get("a"), "0123456789");
}

TEST_F(PutPathTest, AGrantOfMoreReplicasThanThereCanBeIsRefused) {
  const uint32_t replicas = kMaxReplicas + 1;
  pool_.master.placement.assign(replicas, "n1");
  EXPECT_THAT(pool_.Put(*client_, "k", "v", {.replicas = replicas}),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, NobodyIsToldOkBeforeTheCommit) {
  pool_.master.Fail("CommitPuts", absl::PermissionDeniedError("no"), {.times = 1});
  EXPECT_THAT(Put("a", "alpha"), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(PutPathTest, AStartWithoutAnswerIsRepeatedUnderItsRequestId) {
  pool_.master.Fail("StartPuts", absl::UnavailableError("reset"), {.times = 1, .is_applied = true});
  pool_.master.Fail("StartPuts", absl::UnavailableError("reset"), {.times = 1, .is_applied = true});
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  const std::vector<uint64_t> ids = pool_.master.request_ids();
  ASSERT_THAT(ids, SizeIs(3));
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, ACommitWithoutAnswerIsRepeated) {
  pool_.master.Fail("CommitPuts", absl::UnavailableError("reset"),
                    {.times = 1, .is_applied = true});
  pool_.master.Fail("CommitPuts", absl::DeadlineExceededError("lost"), {.times = 1});
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, ACommitThatNeverAnswersMayHaveStored) {
  pool_.master.Fail("CommitPuts", absl::UnavailableError("reset"),
                    {.times = 1000, .is_applied = true});
  const absl::Time begun = pool_.clock.Now();
  const absl::Status status = Put("a", "alpha", {.call = {.timeout = absl::Seconds(2)}});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(std::string(status.message()), HasSubstr("may have been stored"));
  EXPECT_LE(pool_.clock.Now() - begun, absl::Seconds(2));
  // A repetition tells.
  EXPECT_THAT(Put("a", "alpha"), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(PutPathTest, OutlastsAChangeOfLeader) {
  pool_.master.Fail("StartPuts", absl::UnavailableError("no leader"), {.times = 10});
  EXPECT_THAT(Put("a", "alpha"), IsOk());
}

absl::Status NobodyLeads() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader, "no master leads");
}

TEST_F(PutPathTest, WhatWasSealedUnderTheOldLeaderIsStored) {
  bool is_first = true;
  pool_.master.on_call = [&](absl::string_view method) {
    if (method == "CommitPuts" && std::exchange(is_first, false)) pool_.master.ChangeLeader();
  };
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(pool_.node("n1").writes + pool_.node("n2").writes, 1) << "it is found, not repeated";
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, AGrantOfTheOldLeaderIsAskedForAgain) {
  bool is_first = true;
  pool_.master.on_call = [&](absl::string_view method) {
    // The nodes know the new term before the writer does.
    if (method != "StartPuts" || !std::exchange(is_first, false)) return;
    for (const auto& node : pool_.nodes.all()) node->faults.stale_term_writes = 1;
    pool_.master.Fail("AbortPuts", NobodyLeads(), {.times = 7});
  };
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_THAT(pool_.master.request_ids(), SizeIs(2));
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, OutlastsTheTimeWithoutALeaderAndThatWithoutNodes) {
  pool_.master.Fail("StartPuts", NobodyLeads(), {.times = 15});
  pool_.master.starts_without_nodes = 6;
  const absl::Time begun = pool_.clock.Now();
  EXPECT_THAT(Put("a", "alpha", {.wait_for_space = false}), IsOk());
  EXPECT_LT(pool_.clock.Now() - begun, absl::Seconds(3));
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, APoolThatStaysWithoutNodesIsToldSo) {
  pool_.master.starts_without_nodes = 1'000'000;
  const absl::Time begun = pool_.clock.Now();
  const PutOptions options = {.call = {.timeout = absl::Seconds(60)}, .wait_for_space = false};
  EXPECT_THAT(Put("a", "alpha", options),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNoNodes));
  EXPECT_GE(pool_.clock.Now() - begun, kNodesAwaited);
  EXPECT_LE(pool_.clock.Now() - begun, kNodesAwaited + absl::Seconds(1));
  // Who does not wait is told at once.
  const auto hurried = pool_.NewClient({.wait_for_master = false});
  const int calls = pool_.master.calls("StartPuts");
  EXPECT_THAT(pool_.Put(*hurried, "a", "alpha", options),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNoNodes));
  EXPECT_EQ(pool_.master.calls("StartPuts"), calls + 1);
}

TEST_F(PutPathTest, NodesThatNobodyExpectsAreNotAwaited) {
  pool_.master.starts_without_nodes = 1'000'000;
  pool_.master.nodes_come_within = absl::ZeroDuration();
  EXPECT_THAT(Put("a", "alpha", {.wait_for_space = false}),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNoNodes));
  EXPECT_EQ(pool_.master.calls("StartPuts"), 1);
}

TEST_F(PutPathTest, AnAbortedGrantIsANewPut) {
  // The master loses the grants between write and commit.
  bool is_first = true;
  pool_.master.on_call = [&](absl::string_view method) {
    if (method == "CommitPuts" && std::exchange(is_first, false)) {
      v1::AbortPutsRequest request;
      request.add_puts()->set_generation(Generation::Of(Term{1}, 1).value);
      pool_.master.AbortPuts(request, {}).IgnoreError();
    }
  };
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(pool_.master.calls("StartPuts"), 2);
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, PinnedBytesAreNamedAndAvoided) {
  pool_.master.placement = {"n1"};
  pool_.node("n1").faults.pinned_writes = 2;
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  ASSERT_THAT(pool_.master.aborts(), SizeIs(2));
  ASSERT_EQ(pool_.master.aborts()[0].pinned_size(), 1);
  EXPECT_EQ(pool_.master.aborts()[0].pinned(0).node_id(), 1u);
  EXPECT_EQ(pool_.master.request_ids().size(), 3u);
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, BytesThatStayPinnedEndInAnError) {
  pool_.node("n1").faults.pinned_writes = 1000;
  pool_.master.placement = {"n1"};
  EXPECT_THAT(Put("a", "alpha"), Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, BytesThatWereAlteredOnTheWayAreWrittenAgain) {
  pool_.master.placement = {"n1"};
  pool_.node("n1").faults.altered_writes = 2;
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(pool_.master.request_ids().size(), 3u);
  EXPECT_EQ(Get("a"), "alpha");
  pool_.node("n1").faults.altered_writes = 1000;
  EXPECT_THAT(Put("b", "beta"), Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, ADeadNodeMeansANewGrantElsewhere) {
  pool_.master.placement = {"n1"};
  pool_.node("n1").faults.is_dead = true;
  int starts = 0;
  pool_.master.on_call = [&](absl::string_view method) {
    if (method == "StartPuts" && ++starts == 3) pool_.master.placement = {"n2"};
  };
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_THAT(pool_.master.NodesOf("a"), ElementsAre("n2"));
  EXPECT_THAT(pool_.master.aborts(), SizeIs(2));
}

// The master would choose the node on the writer's host again and again.
TEST(PutPath, WhoseNodeAtHomeIsSickAsksForAnyOther) {
  FakePool pool({"local1", "n1"});
  const auto client = pool.NewClient();
  pool.master.placement = {"local1"};
  pool.node("local1").faults.is_dead = true;
  pool.master.on_call = [&](absl::string_view method) {
    if (method == "AbortPuts") pool.master.placement = {"n1"};
  };
  EXPECT_THAT(pool.Put(*client, "a", "alpha"), IsOk());
  EXPECT_THAT(pool.master.start_hosts, ElementsAre(kLocalHost, ""));
  EXPECT_THAT(pool.Put(*client, "b", "beta"), IsOk());
  EXPECT_EQ(pool.master.start_hosts.back(), kLocalHost) << "another put tries it again";
}

TEST_F(PutPathTest, ADeadPoolEndsInAnError) {
  for (const auto& node : pool_.nodes.all()) node->faults.is_dead = true;
  EXPECT_THAT(Put("a", "alpha"),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, EnoughReplicasAreASuccess) {
  pool_.master.placement = {"n1", "n2"};
  pool_.node("n1").faults.is_dead = true;
  EXPECT_THAT(Put("a", "alpha", {.replicas = 2, .min_replicas = 1}), IsOk());
  EXPECT_THAT(pool_.master.NodesOf("a"), ElementsAre("n2"));
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, TooFewReplicasAreAnError) {
  pool_.master.placement = {"n1", "n2"};
  pool_.node("n1").faults.is_dead = true;
  EXPECT_THAT(Put("a", "alpha", {.replicas = 2}),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kReplicasUnmet));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, AFencedWriterStartsAgain) {
  pool_.node("n1").faults.stale_term_writes = 1;
  pool_.master.placement = {"n1"};
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_THAT(pool_.master.request_ids(), SizeIs(2));
}

// A node that has restarted refuses what was granted before.
TEST_F(PutPathTest, AWriterWhoseGrantTheNodeHasForgottenAsksForAnother) {
  pool_.node("n1").faults.stale_generation_writes = 2;
  pool_.master.placement = {"n1"};
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_THAT(pool_.master.request_ids(), SizeIs(3));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, AWriterThatStaysFencedHasLostItsGrant) {
  pool_.node("n1").faults.stale_term_writes = 1000;
  pool_.master.placement = {"n1"};
  EXPECT_THAT(Put("a", "alpha"), Fails(absl::StatusCode::kAborted, ErrorReason::kGrantAborted));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, AWriteWithoutAnswerIsRepeated) {
  pool_.master.placement = {"n1"};
  pool_.node("n1").faults.lost_answers = 1;
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(pool_.node("n1").writes, 2);
  EXPECT_EQ(pool_.master.calls("StartPuts"), 1);
}

// R3: the seal alone commits. The attempt that the client gave up was a success.
TEST_F(PutPathTest, FindsItsOwnEarlierAttemptCommitted) {
  pool_.master.placement = {"n1"};
  pool_.node("n1").faults.lost_answers = 2;  // sealed, unknown to the client, and again
  pool_.master.on_call = [&](absl::string_view method) {
    if (method == "AbortPuts") pool_.master.CommitBySeal("a");
  };
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(pool_.master.calls("CommitPuts"), 0);
  EXPECT_EQ(Get("a"), "alpha");
}

// The leader that had the grant died before the second replica was written, and the next one has
// adopted the first.
TEST_F(PutPathTest, AnEarlierAttemptWithTooFewReplicasIsNoSuccess) {
  pool_.node("n2").faults.lost_answers = 2;
  pool_.master.on_call = [&](absl::string_view method) {
    if (method == "AbortPuts") pool_.master.CommitBySeal("a");
  };
  EXPECT_THAT(Put("a", "alpha", {.replicas = 2}),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kReplicasUnmet));
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(PutPathTest, AnAbortThatGotLostDoesNotLockTheClientOut) {
  pool_.master.placement = {"n1"};
  pool_.node("n1").faults.pinned_writes = 1;
  pool_.master.Fail("AbortPuts", absl::PermissionDeniedError("lost"), {.times = 1});
  int starts = 0;
  pool_.master.on_call = [&](absl::string_view method) {
    if (method == "StartPuts" && ++starts == 3) {  // the grant's deadline passes
      v1::AbortPutsRequest request;
      request.add_puts()->set_generation(Generation::Of(Term{1}, 1).value);
      pool_.master.AbortPuts(request, {}).IgnoreError();
    }
  };
  EXPECT_THAT(Put("a", "alpha"), IsOk());
}

TEST_F(PutPathTest, EndsAtItsDeadline) {
  for (const auto& node : pool_.nodes.all()) node->faults.is_frozen = true;
  const absl::Time begun = pool_.clock.Now();
  const absl::Status status = Put("a", "alpha", {.call = {.timeout = absl::Milliseconds(500)}});
  EXPECT_THAT(status, Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  EXPECT_EQ(pool_.clock.Now() - begun, absl::Milliseconds(500));
}

TEST_F(PutPathTest, CancelledItGivesItsGrantsBack) {
  for (const auto& node : pool_.nodes.all()) node->faults.is_frozen = true;
  CancelSource source;
  int waits = 0;
  pool_.waiter.on_wait = [&] {
    if (++waits == 3) source.Cancel();
  };
  const absl::Time begun = pool_.clock.Now();
  EXPECT_THAT(Put("a", "alpha", {.call = {.cancel = source.token()}}),
              Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_LE(pool_.clock.Now() - begun, absl::Milliseconds(10));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, CancelledBetweenAttemptsItEndsCancelled) {
  for (const auto& node : pool_.nodes.all()) node->faults.is_dead = true;
  CancelSource source;
  pool_.waiter.on_wait = [&] { source.Cancel(); };
  EXPECT_THAT(Put("a", "alpha", {.call = {.cancel = source.token()}}),
              Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_EQ(pool_.master.open_grants(), 0u);
}

TEST_F(PutPathTest, BackPressureIsWaitedFor) {
  for (const auto& node : pool_.nodes.all()) {
    node->faults.outstanding_max = 1;
    node->faults.idle_turns = 2;
  }
  std::vector<std::string> values;
  std::vector<PutItem> items;
  for (int i = 0; i < 50; ++i) values.push_back(absl::StrCat("value", i));
  for (int i = 0; i < 50; ++i) {
    items.push_back({.key = absl::StrCat("k", i), .value = {BytesOf(values[i])}});
  }
  for (const absl::Status& status : client_->PutMany(items, {})) EXPECT_THAT(status, IsOk());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Get(absl::StrCat("k", i)), values[i]);
}

}  // namespace
}  // namespace moonpool::client
