#include "client_sdk/core/get_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/testing/fake_pool.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::HasSubstr;

class GetPathTest : public ::testing::Test {
 protected:
  // The value, or what went wrong.
  std::string Get(const std::string& key, const GetOptions& options = {}) {
    std::string buffer(1000, '?');
    const absl::StatusOr<size_t> read = GetInto(key, &buffer, options);
    if (!read.ok()) return Describe(read.status());
    return buffer.substr(0, *read);
  }
  absl::StatusOr<size_t> GetInto(const std::string& key, std::string* buffer,
                                 const GetOptions& options = {}) {
    const GetItem item = {.key = key, .into = {BufferOf(buffer)}};
    return reader_->GetMany({&item, 1}, options).front();
  }
  absl::Status StatusOfGet(const std::string& key, const GetOptions& options = {}) {
    std::string buffer(1000, '?');
    return GetInto(key, &buffer, options).status();
  }
  void Store(const std::string& key, const std::string& value, uint32_t replicas = 1) {
    ASSERT_THAT(pool_.Put(*writer_, key, value, {.replicas = replicas}), IsOk());
  }

  FakePool pool_{{"n1", "n2", "n3"}};
  std::unique_ptr<CoreClient> writer_ = pool_.NewClient();
  std::unique_ptr<CoreClient> reader_ = pool_.NewClient();
};

TEST_F(GetPathTest, NodesThatDoNotAnswerCostOneConnectTimeoutInAll) {
  FakePool pool({"n1", "n2", "n3", "n4", "n5", "n6"});
  const auto writer = pool.NewClient();
  std::vector<std::string> buffers(6, std::string(10, '?'));
  std::vector<GetItem> items;
  for (int i = 0; i < 6; ++i) {
    const std::string node = absl::StrCat("n", i + 1);
    pool.master.placement = {node};
    ASSERT_THAT(pool.Put(*writer, node, "alpha"), IsOk());
    pool.node(node).faults.is_silent = i < 5;
    items.push_back({.key = node, .into = {BufferOf(&buffers[static_cast<size_t>(i)])}});
  }
  const auto reader = pool.NewClient();
  std::optional<int> reads_before_waiting;
  pool.waiter.on_wait = [&] {
    if (!reads_before_waiting) reads_before_waiting = pool.node("n6").reads.load();
  };
  const absl::Time begun = pool.clock.Now();
  const auto results = reader->GetMany(items, {});
  EXPECT_LT(pool.clock.Now() - begun, 2 * PeersOptions().connect_timeout);
  EXPECT_EQ(reads_before_waiting, 1) << "the one that answers was kept waiting";
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(results[i].status(), Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
  }
  EXPECT_THAT(results[5], IsOk());

  // The deadline comes before the connect timeout, and ends it.
  pool.clock.Advance(absl::Seconds(10));
  const absl::Time again = pool.clock.Now();
  reader->GetMany(items, {.call = {.timeout = absl::Milliseconds(100)}});
  EXPECT_LE(pool.clock.Now() - again, absl::Milliseconds(101));
}

TEST_F(GetPathTest, TimeThatSharedMemoryTakesToConnectIsNotTheOtherNodesFault) {
  FakePool pool({"n1", "local1"});
  const auto writer = pool.NewClient();
  std::vector<std::string> buffers(2, std::string(10, '?'));
  std::vector<GetItem> items;
  for (const std::string node : {"n1", "local1"}) {
    pool.master.placement = {node};
    ASSERT_THAT(pool.Put(*writer, node, "alpha"), IsOk());
    items.push_back({.key = node, .into = {BufferOf(&buffers[items.size()])}});
  }
  pool.shm.is_broken = true;
  pool.shm.on_connect = [&] { pool.clock.Advance(PeersOptions().connect_timeout); };
  pool.node("n1").faults.is_silent = true;
  pool.waiter.on_wait = [&] { pool.node("n1").faults.is_silent = false; };
  const auto reader = pool.NewClient();
  const auto results = reader->GetMany(items, {});
  EXPECT_THAT(results[0], IsOk());
  EXPECT_THAT(results[1], IsOk()) << "by TCP";
  EXPECT_EQ(pool.node("n1").connects, 2) << "one of the writer, one of the reader";
}

TEST_F(GetPathTest, CostsOneLocateAndThenNone) {
  Store("a", "alpha");
  Store("b", "beta");
  const int before = pool_.master.calls();
  std::string first(10, '?'), second(10, '?');
  const std::vector<GetItem> items = {{.key = "a", .into = {BufferOf(&first)}},
                                      {.key = "b", .into = {BufferOf(&second)}}};
  for (int i = 0; i < 3; ++i) {
    const auto results = reader_->GetMany(items, {});
    ASSERT_THAT(results[0], IsOk());
    ASSERT_THAT(results[1], IsOk());
    EXPECT_EQ(first.substr(0, *results[0]), "alpha");
    EXPECT_EQ(second.substr(0, *results[1]), "beta");
  }
  EXPECT_EQ(pool_.master.calls() - before, 1);
  const ClientStats stats = reader_->stats();
  EXPECT_EQ(stats.gets, 6u);
  EXPECT_EQ(stats.hits, 6u);
  EXPECT_EQ(stats.get_bytes, 27u);
  EXPECT_EQ(stats.location_cache_hits, 4u);
  EXPECT_EQ(stats.master_calls, 1u);
  EXPECT_EQ(stats.relocated, 0u);
}

TEST_F(GetPathTest, OwnPutsNeedNoLocate) {
  Store("a", "alpha");
  reader_.swap(writer_);
  EXPECT_EQ(Get("a"), "alpha");
  EXPECT_EQ(pool_.master.calls("Locate"), 0);
}

TEST_F(GetPathTest, TellsTheMasterLaterWhatWasReadWithoutIt) {
  Store("a", "alpha");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Get("a"), "alpha");
  EXPECT_TRUE(pool_.master.touched().empty());
  Get("unknown");
  ASSERT_EQ(pool_.master.touched().size(), 1u);
  EXPECT_EQ(pool_.master.touched()[0].generation(), pool_.master.GenerationOf("a").value);
}

TEST_F(GetPathTest, AMissSaysWhy) {
  EXPECT_THAT(StatusOfGet("never"), Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  Store("a", "alpha");
  pool_.master.Evict("a");
  EXPECT_THAT(StatusOfGet("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
  EXPECT_EQ(DetailOf(StatusOfGet("a"))->key, "a");
  EXPECT_EQ(reader_->stats().misses, 3u);
}

TEST_F(GetPathTest, BadItemsDoNotFailOthers) {
  Store("a", "alpha");
  std::string good(10, '?'), tiny(2, '?'), other(10, '?');
  const std::vector<GetItem> items = {{.key = "", .into = {BufferOf(&other)}},
                                      {.key = std::string(2000, 'x'), .into = {BufferOf(&other)}},
                                      {.key = "a", .into = {BufferOf(&tiny)}},
                                      {.key = "unknown", .into = {BufferOf(&other)}},
                                      {.key = "a", .into = {BufferOf(&good)}}};
  const auto results = reader_->GetMany(items, {});
  EXPECT_THAT(results[0], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  EXPECT_THAT(results[1], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong));
  EXPECT_THAT(results[2], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBufferTooShort));
  EXPECT_THAT(results[2].status().message(), HasSubstr("has 5 bytes, the buffer 2"));
  EXPECT_EQ(tiny, "??");
  EXPECT_THAT(results[3], StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(results[4], IsOk());
  EXPECT_EQ(good, "alpha?????");
}

TEST_F(GetPathTest, RefusesBatchesThatAreTooLarge) {
  const std::vector<GetItem> items(kMaxBatchKeys + 1, GetItem{.key = "k"});
  EXPECT_THAT(reader_->GetMany(items, {}).front(),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));
  EXPECT_EQ(pool_.master.calls("Locate"), 0);
}

TEST_F(GetPathTest, FillsEveryBufferOfAKeyThatStandsTwice) {
  Store("a", "alpha");
  std::string first(5, '?'), second(5, '?');
  const std::vector<GetItem> items = {{.key = "a", .into = {BufferOf(&first)}},
                                      {.key = "a", .into = {BufferOf(&second)}}};
  for (const auto& result : reader_->GetMany(items, {})) EXPECT_THAT(result, IsOk());
  EXPECT_EQ(first, "alpha");
  EXPECT_EQ(second, "alpha");
}

TEST_F(GetPathTest, ReadsObjectsWithoutBytes) {
  Store("empty", "");
  EXPECT_EQ(Get("empty"), "");
  pool_.master.Evict("empty");
  EXPECT_THAT(StatusOfGet("empty"), Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
}

TEST_F(GetPathTest, SplitsScatterListsAcrossPartsOnSeveralNodes) {
  pool_.master.stripe_bytes = 7;
  const std::string value = "the quick brown fox jumps over the lazy dog";
  Store("striped", value);
  std::string a(3, '?'), b, c(20, '?'), d(1, '?'), e(30, '?');
  const GetItem item = {
      .key = "striped",
      .into = {BufferOf(&a), BufferOf(&b), BufferOf(&c), BufferOf(&d), BufferOf(&e)}};
  const auto read = reader_->GetMany({&item, 1}, {}).front();
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ((a + b + c + d + e).substr(0, *read), value);
  EXPECT_GT(pool_.node("n1").reads, 0);
  EXPECT_GT(pool_.node("n2").reads, 0);
}

TEST_F(GetPathTest, FollowsAnObjectThatWasReplaced) {
  Store("a", "old");
  EXPECT_EQ(Get("a"), "old");
  pool_.master.Evict("a");
  auto other = pool_.NewClient();
  ASSERT_THAT(pool_.Put(*other, "a", "new and longer"), IsOk());
  EXPECT_EQ(Get("a"), "new and longer");
  EXPECT_EQ(reader_->stats().relocated, 1u);
}

TEST_F(GetPathTest, AStaleHintAboutTheSizeIsNoReasonToRefuse) {
  Store("a", "a long old value");
  EXPECT_EQ(Get("a"), "a long old value");
  pool_.master.Evict("a");
  auto other = pool_.NewClient();
  ASSERT_THAT(pool_.Put(*other, "a", "new"), IsOk());
  std::string small(4, '?');
  // The location that is known is too large; the master knows of a smaller one, under a newer
  // generation.
  EXPECT_THAT(GetInto("a", &small), IsOk());
  EXPECT_EQ(small, "new?");
}

TEST_F(GetPathTest, ACorruptedReplicaIsNeverReturned) {
  Store("a", "alpha", /*replicas=*/2);
  const Generation generation = pool_.master.GenerationOf("a");
  pool_.node(pool_.master.NodesOf("a")[0]).Corrupt(generation);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Get("a"), "alpha");
  EXPECT_GT(reader_->stats().checksum_failures, 0u);
  EXPECT_GT(reader_->stats().failovers, 0u);

  pool_.node(pool_.master.NodesOf("a")[1]).Corrupt(generation);
  EXPECT_THAT(StatusOfGet("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kChecksumMismatch));
  // A node that looked has forgotten what was bad.
  pool_.node(pool_.master.NodesOf("a")[0]).Free(generation);
  EXPECT_THAT(StatusOfGet("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kChecksumMismatch));
}

TEST_F(GetPathTest, BytesOfAnotherKeyAreNeverReturned) {
  Store("a", "alpha");
  pool_.node(pool_.master.NodesOf("a")[0]).Disguise(pool_.master.GenerationOf("a"));
  EXPECT_THAT(StatusOfGet("a", {.verify = false}),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kChecksumMismatch));
}

TEST_F(GetPathTest, WithoutVerificationOnlyHeadersAreChecked) {
  Store("a", "alpha");
  pool_.node(pool_.master.NodesOf("a")[0]).Corrupt(pool_.master.GenerationOf("a"));
  EXPECT_EQ(Get("a", {.verify = false}), "alph`");
}

TEST_F(GetPathTest, AnotherReplicaServesForADeadNode) {
  Store("a", "alpha", /*replicas=*/2);
  EXPECT_EQ(Get("a"), "alpha");
  pool_.node(pool_.master.NodesOf("a")[0]).faults.is_dead = true;
  const absl::Time begun = pool_.clock.Now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Get("a"), "alpha");
  EXPECT_LT(pool_.clock.Now() - begun, absl::Milliseconds(10));
}

TEST_F(GetPathTest, DataOutOfReachIsAMiss) {
  Store("a", "alpha");
  Store("b", "beta");
  for (const char* key : {"a", "b"}) Get(key);
  pool_.node(pool_.master.NodesOf("a")[0]).faults.is_dead = true;
  const absl::Status miss = StatusOfGet("a");
  EXPECT_THAT(miss, Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
  EXPECT_EQ(DetailOf(miss)->node, pool_.master.NodesOf("a")[0]);
  EXPECT_EQ(DetailOf(miss)->key, "a");
}

TEST_F(GetPathTest, ANodeThatRestartedIsFoundAgain) {
  Store("a", "alpha");
  EXPECT_EQ(Get("a"), "alpha");
  pool_.node(pool_.master.NodesOf("a")[0]).Restart();
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(GetPathTest, ANodeThatLostItsBytesIsAMiss) {
  Store("a", "alpha");
  EXPECT_EQ(Get("a"), "alpha");
  pool_.node(pool_.master.NodesOf("a")[0]).Wipe();
  EXPECT_THAT(StatusOfGet("a"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(GetPathTest, ABrokenChannelIsReplacedWithoutAskingTheMaster) {
  Store("a", "alpha");
  EXPECT_EQ(Get("a"), "alpha");
  const int before = pool_.master.calls();
  pool_.node(pool_.master.NodesOf("a")[0]).faults.broken_ops = 1;
  EXPECT_EQ(Get("a"), "alpha");
  EXPECT_EQ(pool_.master.calls(), before);
}

TEST_F(GetPathTest, AFrozenNodeDoesNotHoldUpItsReplicas) {
  Store("a", "alpha", /*replicas=*/2);
  pool_.node(pool_.master.NodesOf("a")[0]).faults.is_frozen = true;
  const absl::Time begun = pool_.clock.Now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Get("a"), "alpha");
  EXPECT_LT(pool_.clock.Now() - begun, absl::Seconds(3));
}

TEST_F(GetPathTest, BackPressureIsWaitedFor) {
  std::vector<std::string> buffers(100, std::string(10, '?'));
  std::vector<GetItem> items;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::string key = absl::StrCat("k", i);
    Store(key, absl::StrCat("value", i));
    items.push_back({.key = key, .into = {BufferOf(&buffers[i])}});
  }
  for (const auto& node : pool_.nodes.all()) {
    node->faults.outstanding_max = 2;
    node->faults.idle_turns = 3;
  }
  const auto results = reader_->GetMany(items, {});
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_THAT(results[i], IsOk());
    EXPECT_EQ(buffers[i].substr(0, *results[i]), absl::StrCat("value", i));
  }
}

TEST_F(GetPathTest, EndsAtItsDeadlineAndKeepsWhatArrived) {
  pool_.master.placement = {"n1"};
  Store("fast", "alpha");
  pool_.master.placement = {"n2"};
  Store("frozen", "beta");
  pool_.node("n2").faults.is_frozen = true;
  std::string first(10, '?'), second(10, '?');
  const std::vector<GetItem> items = {{.key = "fast", .into = {BufferOf(&first)}},
                                      {.key = "frozen", .into = {BufferOf(&second)}}};
  const absl::Time begun = pool_.clock.Now();
  const auto results = reader_->GetMany(items, {.call = {.timeout = absl::Milliseconds(300)}});
  EXPECT_EQ(pool_.clock.Now() - begun, absl::Milliseconds(300));
  EXPECT_THAT(results[0], IsOk());
  EXPECT_THAT(results[1], Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

TEST_F(GetPathTest, EndsSoonWhenCancelled) {
  Store("a", "alpha");
  pool_.node(pool_.master.NodesOf("a")[0]).faults.is_frozen = true;
  CancelSource source;
  int waits = 0;
  pool_.waiter.on_wait = [&] {
    if (++waits == 3) source.Cancel();
  };
  EXPECT_THAT(StatusOfGet("a", {.call = {.cancel = source.token()}}),
              Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_EQ(waits, 3);
}

TEST_F(GetPathTest, AnOutageOfTheMasterIsWaitedFor) {
  Store("a", "alpha");
  pool_.master.Fail("Locate", absl::UnavailableError("no master"), {.times = 24});
  const absl::Time begun = pool_.clock.Now();
  EXPECT_EQ(Get("a"), "alpha");
  EXPECT_GT(pool_.clock.Now() - begun, absl::Seconds(2)) << "an outage worth the name";
}

TEST_F(GetPathTest, AnOutageOfTheMasterIsWaitedForUntilTheDeadline) {
  pool_.master.Fail("Locate", absl::UnavailableError("no master"), {.times = 1000});
  const absl::Time begun = pool_.clock.Now();
  EXPECT_THAT(StatusOfGet("a", {.call = {.timeout = absl::Minutes(2)}}),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_LE(pool_.clock.Now() - begun, absl::Minutes(2));
  EXPECT_GT(pool_.clock.Now() - begun, absl::Seconds(119));
}

TEST_F(GetPathTest, WhoDoesNotWaitForTheMasterIsToldAfterAWhile) {
  reader_ = pool_.NewClient({.wait_for_master = false});
  pool_.master.Fail("Locate", absl::UnavailableError("no master"), {.times = 1000});
  const absl::Time begun = pool_.clock.Now();
  EXPECT_THAT(StatusOfGet("a"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_LT(pool_.clock.Now() - begun, absl::Seconds(3));
  EXPECT_GT(pool_.clock.Now() - begun, absl::Milliseconds(500));
}

TEST_F(GetPathTest, KnownLocationsNeedNoMaster) {
  Store("a", "alpha");
  EXPECT_EQ(Get("a"), "alpha");
  pool_.master.Fail("Locate", absl::UnavailableError("no master"), {.times = 1000});
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(GetPathTest, ALocateThatGetsNoAnswerIsRepeated) {
  Store("a", "alpha");
  pool_.master.Fail("Locate", absl::DeadlineExceededError("lost"), {.times = 1});
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(GetPathTest, AMasterOfAnotherVersionIsRefused) {
  Store("a", "alpha");
  pool_.master.version_major = 2;
  EXPECT_THAT(StatusOfGet("a"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
}

TEST_F(GetPathTest, HoldersThatAreAwayMakeAMiss) {
  pool_.master.Fail("Locate", absl::OkStatus(), {.times = 0});
  v1::Status away;
  away.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  away.mutable_detail()->set_reason(v1::NODE_LOST);
  EXPECT_THAT(MissOf(away, "k"), Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
}

}  // namespace
}  // namespace moonpool::client
