#include "client_sdk/core/view_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client_sdk/core/testing/fake_pool.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const View& view) {
  std::string text;
  for (const ConstBuffer piece : view.pieces()) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return text;
}

class ViewPathTest : public ::testing::Test {
 protected:
  void Store(const std::string& key, const std::string& value,
             const std::vector<std::string>& nodes, uint32_t replicas = 1) {
    pool_.master.placement = nodes;
    ASSERT_THAT(pool_.Put(*writer_, key, value, {.replicas = replicas}), IsOk());
  }
  absl::StatusOr<View> GetView(const std::string& key) { return reader_->GetView(key, {}); }

  FakePool pool_{{"local1", "local2", "n1"}};
  std::unique_ptr<CoreClient> writer_ = pool_.NewClient();
  std::unique_ptr<CoreClient> reader_ = pool_.NewClient();
};

TEST_F(ViewPathTest, ShowsTheBytesInThePool) {
  Store("a", "alpha", {"local1"});
  ASSERT_OK_AND_ASSIGN(const View view, GetView("a"));
  EXPECT_EQ(TextOf(view), "alpha");
  EXPECT_EQ(view.size_bytes(), 5u);
  EXPECT_EQ(view.pieces().size(), 1u);
  EXPECT_TRUE(view.valid());
}

TEST_F(ViewPathTest, CostsNoCallOnceTheLocationIsKnown) {
  Store("a", "alpha", {"local1"});
  EXPECT_THAT(GetView("a"), IsOk());
  const int before = pool_.master.calls();
  for (int i = 0; i < 5; ++i) EXPECT_THAT(GetView("a"), IsOk());
  EXPECT_EQ(pool_.master.calls(), before);
  EXPECT_EQ(pool_.node("local1").connects, 2);  // the writer's, and the reader's for views
}

TEST_F(ViewPathTest, ManyCostOneCall) {
  Store("a", "alpha", {"local1"});
  Store("b", "beta", {"local2"});
  Store("far", "far", {"n1"});
  EXPECT_THAT(GetView("a"), IsOk());
  const int before = pool_.master.calls();
  const std::vector<std::string> keys = {"b", "absent", "a", "", "far", "b"};
  const std::vector<absl::StatusOr<View>> views = reader_->GetViewMany(keys, {});
  EXPECT_EQ(pool_.master.calls(), before + 1);
  ASSERT_EQ(views.size(), keys.size());
  for (const size_t index : {0u, 2u, 5u}) ASSERT_THAT(views[index], IsOk());
  EXPECT_EQ(TextOf(*views[0]) + TextOf(*views[2]) + TextOf(*views[5]), "betaalphabeta");
  EXPECT_THAT(views[1], Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  EXPECT_THAT(views[3], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  EXPECT_THAT(views[4],
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerUnreachable));
}

TEST_F(ViewPathTest, ManyHaveOneDeadline) {
  pool_.master.Fail("Locate", absl::UnavailableError("away"), {.times = 1'000'000});
  const std::vector<std::string> keys(50, "k");
  const absl::Time begin = pool_.clock.Now();
  for (const auto& view : reader_->GetViewMany(keys, {.call = {.timeout = absl::Seconds(1)}})) {
    EXPECT_FALSE(view.ok());
  }
  EXPECT_LE(pool_.clock.Now() - begin, absl::Seconds(1.5));
  const std::vector<std::string> too_many(20'000, "k");
  EXPECT_THAT(reader_->GetViewMany(too_many, {}).front(),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));
}

// A millisecond goes by with every look at the clock.
class TickingWaiter final : public transport::Waiter, private Clock {
 public:
  explicit TickingWaiter(FakeClock& clock) : clock_(clock) {}
  void Wait(absl::Span<transport::Channel* const>, const CallContext&) override {}
  const Clock& clock() const override { return *this; }

 private:
  absl::Time Now() const override {
    clock_.Advance(absl::Milliseconds(1));
    return clock_.Now();
  }

  FakeClock& clock_;
};

TEST_F(ViewPathTest, LooksAtTheDeadlineWhileItScansALargePart) {
  Store("small", "alpha", {"local1"});
  Store("large", std::string(64 << 20, 'x'), {"local1"});
  TickingWaiter waiter(pool_.clock);
  SessionOptions options;
  options.peers.host_id = kLocalHost;
  options.peers.paths = {{&pool_.shm, /*same_host_only=*/true}};
  CoreClient reader(pool_.master, waiter, pool_.log.logger(), options);
  const GetOptions soon = {.call = {.timeout = absl::Milliseconds(40)}};
  EXPECT_THAT(reader.GetView("small", soon), IsOk());
  EXPECT_THAT(reader.GetView("large", soon),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  EXPECT_THAT(reader.GetView("large", {}), IsOk());
}

TEST_F(ViewPathTest, ScansTheBytesOnceOnly) {
  Store("a", "alpha", {"local1"});
  EXPECT_THAT(GetView("a"), IsOk());
  // Which cannot happen: a sealed part does not change. So nobody looks again.
  pool_.node("local1").Corrupt(pool_.master.GenerationOf("a"));
  EXPECT_THAT(GetView("a"), IsOk());
  EXPECT_THAT(pool_.NewClient()->GetView("a", {}),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kChecksumMismatch));
  EXPECT_GT(pool_.node("local1").doubts, 0);
  EXPECT_THAT(pool_.NewClient()->GetView("a", {.verify = false}), IsOk());
}

TEST_F(ViewPathTest, StripedObjectsHaveSeveralPieces) {
  pool_.master.stripe_bytes = 4;
  Store("a", "0123456789", {"local1", "local2"});
  ASSERT_OK_AND_ASSIGN(const View view, GetView("a"));
  EXPECT_EQ(view.pieces().size(), 3u);
  EXPECT_EQ(TextOf(view), "0123456789");
}

TEST_F(ViewPathTest, ObjectsWithoutBytesHaveNoPieces) {
  Store("empty", "", {"local1"});
  ASSERT_OK_AND_ASSIGN(const View view, GetView("empty"));
  EXPECT_TRUE(view.pieces().empty());
  EXPECT_EQ(view.size_bytes(), 0u);
}

TEST_F(ViewPathTest, ObjectsElsewhereAreRefused) {
  Store("far", "alpha", {"n1"});
  const absl::Status status = GetView("far").status();
  EXPECT_THAT(status, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the object is on n1"));
}

TEST_F(ViewPathTest, TakesTheReplicaOnThisHost) {
  Store("a", "alpha", {"n1", "local1"}, /*replicas=*/2);
  EXPECT_THAT(GetView("a"), IsOk());
}

TEST_F(ViewPathTest, AnotherReplicaServesForACorruptedOne) {
  Store("a", "alpha", {"local1", "local2"}, /*replicas=*/2);
  pool_.node("local1").Corrupt(pool_.master.GenerationOf("a"));
  ASSERT_OK_AND_ASSIGN(const View view, GetView("a"));
  EXPECT_EQ(TextOf(view), "alpha");
  EXPECT_EQ(reader_->stats().checksum_failures, 1u);
  EXPECT_EQ(pool_.node("local1").doubts, 1);
  EXPECT_EQ(pool_.node("local2").doubts, 0);
}

TEST_F(ViewPathTest, AMissSaysWhy) {
  EXPECT_THAT(GetView("never"), Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  EXPECT_THAT(GetView(""), Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  Store("a", "alpha", {"local1"});
  EXPECT_THAT(GetView("a"), IsOk());
  pool_.master.Evict("a");
  EXPECT_THAT(GetView("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
}

TEST_F(ViewPathTest, FollowsAnObjectThatWasReplaced) {
  Store("a", "old", {"local1"});
  EXPECT_THAT(GetView("a"), IsOk());
  pool_.master.Evict("a");
  auto other = pool_.NewClient();
  ASSERT_THAT(pool_.Put(*other, "a", "new"), IsOk());
  ASSERT_OK_AND_ASSIGN(const View view, GetView("a"));
  EXPECT_EQ(TextOf(view), "new");
}

TEST_F(ViewPathTest, SurvivesARestartOfItsNode) {
  Store("a", "alpha", {"local1"});
  ASSERT_OK_AND_ASSIGN(const View old, GetView("a"));
  pool_.node("local1").Restart();
  EXPECT_FALSE(old.valid());
  ASSERT_OK_AND_ASSIGN(const View now, GetView("a"));
  EXPECT_TRUE(now.valid());
}

TEST_F(ViewPathTest, ADeadNodeIsAMiss) {
  Store("a", "alpha", {"local1"});
  EXPECT_THAT(GetView("a"), IsOk());
  pool_.node("local1").faults.is_dead = true;
  EXPECT_THAT(GetView("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kNodeLost));
}

TEST_F(ViewPathTest, OutlivesTheClient) {
  Store("a", "alpha", {"local1"});
  ASSERT_OK_AND_ASSIGN(const View view, GetView("a"));
  reader_.reset();
  EXPECT_EQ(TextOf(view), "alpha");
}

}  // namespace
}  // namespace moonpool::client
