#include "client_sdk/core/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "client_sdk/core/testing/fake_pool.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PeersTest : public ::testing::Test {
 protected:
  std::shared_ptr<Peer> Intern(const std::string& name) {
    return peers_.Intern(pool_.node(name).address());
  }
  std::string PathTo(Peer& peer) {
    absl::StatusOr<ChannelLease> lease = peer.Acquire(Context());
    return lease.ok() ? std::string((*lease)->backend()) : Describe(lease.status());
  }
  CallContext Context() {
    return {.deadline = pool_.clock.Now() + absl::Seconds(10), .cancel = {}};
  }

  FakePool pool_{{"local1", "n1"}};
  SharedRandom random_{1};
  Counters counters_;
  Peers peers_{{.paths = {{&pool_.shm, true}, {&pool_.tcp, false}}, .host_id = kLocalHost},
               pool_.clock,
               random_,
               counters_,
               pool_.log.logger()};
};

TEST_F(PeersTest, TakesSharedMemoryOnTheSameHostAndTcpElsewhere) {
  EXPECT_EQ(PathTo(*Intern("local1")), "shm");
  EXPECT_EQ(PathTo(*Intern("n1")), "tcp");
}

TEST_F(PeersTest, FallsBackLoudlyAndRemembers) {
  const std::shared_ptr<Peer> peer = Intern("local1");
  pool_.shm.is_broken = true;
  EXPECT_EQ(PathTo(*peer), "tcp");
  EXPECT_EQ(PathTo(*peer), "tcp");
  EXPECT_THAT(pool_.log.lines(),
              ElementsAre(HasSubstr("warn path to node failed node=local1 path=shm next=tcp")));
  EXPECT_EQ(counters_.failovers.value(), 1u);

  // It is tried again when its time has come, and then taken again.
  pool_.shm.is_broken = false;
  EXPECT_EQ(PathTo(*peer), "tcp");
  pool_.clock.Advance(absl::Milliseconds(200));
  EXPECT_EQ(PathTo(*peer), "shm");
  EXPECT_THAT(pool_.log.lines().back(), HasSubstr("info path to node works again"));
}

TEST_F(PeersTest, LeavesADeadNodeAloneForGrowingWhiles) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  pool_.node("n1").faults.is_dead = true;
  int attempts = 0;
  for (int ms = 0; ms < 60'000; ++ms) {
    attempts += peer->is_avoided() ? 0 : 1;
    EXPECT_THAT(peer->Acquire(Context()),
                Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
    pool_.clock.Advance(absl::Milliseconds(1));
  }
  EXPECT_GE(attempts, 24);  // every 2 seconds in the end, a quarter more or less
  EXPECT_LE(attempts, 48);
  pool_.node("n1").faults.is_dead = false;
  pool_.clock.Advance(absl::Milliseconds(2500));
  EXPECT_EQ(PathTo(*peer), "tcp");
}

TEST_F(PeersTest, ASilentNodeIsLeftAloneAfterTheConnectTimeout) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  pool_.node("n1").faults.is_silent = true;
  absl::StatusOr<ChannelLease> lease = peer->Acquire(Context());
  ASSERT_THAT(lease, IsOk());
  ASSERT_TRUE(lease->handshake().has_value());
  EXPECT_EQ(lease->handshake()->until, pool_.clock.Now() + absl::Milliseconds(500));
  EXPECT_EQ(lease->Connected(Context()), std::nullopt);
  pool_.clock.Advance(absl::Milliseconds(500));
  EXPECT_THAT(*lease->Connected(Context()),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(PathTo(*peer), HasSubstr("after: no answer within 500ms"));

  pool_.node("n1").faults.is_silent = false;
  pool_.clock.Advance(absl::Seconds(1));
  EXPECT_EQ(PathTo(*peer), "tcp");
}

TEST_F(PeersTest, AnAnswerIsWaitedForAndThenTheChannelServes) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  pool_.node("n1").faults.is_silent = true;
  {
    absl::StatusOr<ChannelLease> lease = peer->Acquire(Context());
    ASSERT_THAT(lease, IsOk());
    EXPECT_EQ(lease->Connected(Context()), std::nullopt);
    pool_.node("n1").faults.is_silent = false;
    EXPECT_THAT(*lease->Connected(Context()), IsOk());
    EXPECT_FALSE(lease->handshake().has_value());
  }
  EXPECT_TRUE(peer->AcquireIdle().has_value());
}

TEST_F(PeersTest, AHandshakeThatIsDroppedOrHurriedSaysNothingAboutTheNode) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  pool_.node("n1").faults.is_silent = true;
  EXPECT_THAT(peer->Acquire(Context()), IsOk());
  EXPECT_FALSE(peer->is_avoided());
  EXPECT_FALSE(peer->AcquireIdle().has_value());
  const CallContext hurried = {.deadline = pool_.clock.Now() + absl::Milliseconds(10),
                               .cancel = {}};
  absl::StatusOr<ChannelLease> lease = peer->Acquire(hurried);
  ASSERT_THAT(lease, IsOk());
  pool_.clock.Advance(absl::Milliseconds(10));
  EXPECT_THAT(*lease->Connected(hurried), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(peer->is_avoided());
}

TEST_F(PeersTest, AnotherPathServesForAHandshakeThatFailed) {
  Peers peers({.paths = {{&pool_.tcp, false}, {&pool_.shm, true}}, .host_id = kLocalHost},
              pool_.clock, random_, counters_, pool_.log.logger());
  pool_.node("local1").faults.is_silent = true;
  const std::shared_ptr<Peer> peer = peers.Intern(pool_.node("local1").address());
  absl::StatusOr<ChannelLease> lease = peer->Acquire(Context());
  ASSERT_THAT(lease, IsOk());
  pool_.clock.Advance(absl::Milliseconds(500));
  EXPECT_THAT(*lease->Connected(Context()), StatusIs(absl::StatusCode::kUnavailable));
  // Shared memory waits for the handshake, so a silent node's fake is woken for it.
  pool_.node("local1").faults.is_silent = false;
  absl::StatusOr<ChannelLease> next = peer->Acquire(Context(), lease->path() + 1);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ((*next)->backend(), "shm");
}

TEST_F(PeersTest, SaysWhyANodeIsLeftAlone) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  pool_.node("n1").faults.is_dead = true;
  EXPECT_THAT(PathTo(*peer), HasSubstr("connection refused"));
  const std::string second = PathTo(*peer);
  EXPECT_THAT(second, HasSubstr("node n1 is left alone for"));
  EXPECT_THAT(second, HasSubstr("after: connection refused"));
}

TEST_F(PeersTest, UsesChannelsAgain) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  EXPECT_FALSE(peer->AcquireIdle().has_value());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(PathTo(*peer), "tcp");
  EXPECT_EQ(pool_.node("n1").connects, 1);
  EXPECT_TRUE(peer->AcquireIdle().has_value());
}

TEST_F(PeersTest, KeepsABoundedNumberOfIdleChannels) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  for (int round = 0; round < 2; ++round) {
    std::vector<ChannelLease> leases;
    for (int i = 0; i < 20; ++i) leases.push_back(*peer->Acquire(Context()));
  }
  EXPECT_EQ(pool_.node("n1").connects, 20 + 12);  // 8 of the first 20 were kept
}

TEST_F(PeersTest, DropsWhatBrokeWhileIdle) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  EXPECT_EQ(PathTo(*peer), "tcp");
  pool_.node("n1").Restart();
  EXPECT_FALSE(peer->AcquireIdle().has_value());
  // The address of the next life comes with the next response.
  EXPECT_EQ(Intern("n1"), peer);
  EXPECT_EQ(PathTo(*peer), "tcp");
  EXPECT_EQ(pool_.node("n1").connects, 2);
}

TEST_F(PeersTest, AChannelThatBreaksAtOnceCountsAsAFailedConnect) {
  const std::shared_ptr<Peer> peer = Intern("local1");
  absl::StatusOr<ChannelLease> fresh = peer->Acquire(Context());
  ASSERT_THAT(fresh, IsOk());
  fresh->MarkBroken(absl::UnavailableError("reset"));
  EXPECT_EQ(PathTo(*peer), "tcp");
  // One that worked before says nothing about the path.
  pool_.clock.Advance(absl::Seconds(1));
  EXPECT_EQ(PathTo(*peer), "shm");
  peer->AcquireIdle()->MarkBroken(absl::UnavailableError("reset"));
  EXPECT_EQ(PathTo(*peer), "shm");
}

TEST_F(PeersTest, ANewIncarnationIsAnotherPeer) {
  const std::shared_ptr<Peer> old = Intern("n1");
  EXPECT_EQ(PathTo(*old), "tcp");
  pool_.node("n1").Wipe();
  const std::shared_ptr<Peer> now = Intern("n1");
  EXPECT_NE(now, old);
  EXPECT_EQ(PathTo(*now), "tcp");
  EXPECT_THAT(old->Acquire(Context()),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_EQ(peers_.size(), 1u);
}

TEST_F(PeersTest, EndsWithTheContext) {
  const std::shared_ptr<Peer> peer = Intern("n1");
  pool_.node("n1").faults.is_dead = true;
  CancelSource source;
  source.Cancel();
  EXPECT_THAT(peer->Acquire({.deadline = absl::InfiniteFuture(), .cancel = source.token()}),
              StatusIs(absl::StatusCode::kCancelled));
  // Which says nothing about the peer.
  EXPECT_FALSE(peer->is_avoided());
}

// For ThreadSanitizer.
TEST_F(PeersTest, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::shared_ptr<Peer> peer = Intern(i % 2 == 0 ? "n1" : "local1");
        absl::StatusOr<ChannelLease> lease = peer->Acquire(Context());
        if (lease.ok() && i % 50 == t) lease->MarkBroken(absl::UnavailableError("reset"));
        if (i % 100 == t) pool_.clock.Advance(absl::Seconds(1));
        peer->AcquireViews(Context()).status().IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace moonpool::client
