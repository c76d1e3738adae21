#include "storage_node/link/master_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/testing/status_matchers.h"
#include "storage_node/link/testing/master_link_fixture.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(MasterLinkTest, RegistersThenUploadsThenLives) {
  for (uint32_t i = 1; i <= 3; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, i), At(i * 128, 128, i % 2), absl::StrCat(i)), IsOk());
  }
  pool_.index().NoteTerm(Term{1});
  LinkOutput out = Tick();
  EXPECT_EQ(out.connect, "a:1");
  out = link_.OnConnected(now_);
  ASSERT_THAT(out.send, SizeIs(1));
  const v1::Register& registration = out.send[0].register_();
  EXPECT_EQ(registration.version().major(), kWireMajor);
  EXPECT_EQ(registration.name(), "n1");
  EXPECT_EQ(registration.incarnation(), 77u);
  EXPECT_EQ(registration.host_id(), "host");
  EXPECT_EQ(registration.rack(), "r1");
  EXPECT_EQ(registration.tcp_address(), "10.0.0.1:7");
  EXPECT_EQ(registration.shm_path(), "/run/n1.sock");
  EXPECT_EQ(registration.highest_term_seen(), 1u);
  ASSERT_EQ(registration.segments_size(), 2);
  EXPECT_EQ(registration.segments(1).segment(), 1u);
  EXPECT_EQ(registration.segments(1).medium(), "dram");
  EXPECT_EQ(registration.segments(1).capacity_bytes(), TestPool::kSegmentBytes);

  Receive(Registered(5));
  EXPECT_EQ(link_.term(), Term{5});
  EXPECT_EQ(pool_.index().newest_term(), Term{5});
  const auto sent = Upload();
  EXPECT_TRUE(sent.front().has_heartbeat());  // a long upload is no silence
  EXPECT_TRUE(sent.back().inventory().complete());
  EXPECT_THAT(Keys(sent), ElementsAre("inventory 2", "inventory 1", "inventory 3"));
  EXPECT_EQ(link_.state(), LinkState::kLive);
  EXPECT_THAT(TickAfter(absl::Seconds(0)).send, IsEmpty());  // the seals before are not reported
}

TEST_F(MasterLinkTest, APartIsToldWithAllThatIsKnownOfIt) {
  transport::SealRecord record = RecordFor(Gen(1, 9), At(64, 164), "key");
  record.name_space = "ns";
  record.parent = "parent";
  record.object_bytes = 500;
  record.part_index = 1;
  record.part_count = 5;
  record.replica_index = 2;
  record.replicas = 4;
  ASSERT_OK_AND_ASSIGN(auto claim, pool_.Claim(Gen(1, 9), At(64, 164)));
  claim->SetWritten();
  ASSERT_THAT(pool_.index().Seal(record), IsOk());
  Register();
  const auto sent = Upload();
  const v1::SealedPart& part = sent.back().inventory().parts(0);
  EXPECT_EQ(part.generation(), Gen(1, 9).value);
  EXPECT_EQ(part.namespace_(), "ns");
  EXPECT_EQ(part.key(), "key");
  EXPECT_EQ(part.parent(), "parent");
  EXPECT_EQ(part.extent().segment(), 0u);
  EXPECT_EQ(part.extent().offset(), 64u);
  EXPECT_EQ(part.extent().length(), 164u);
  EXPECT_EQ(part.object_bytes(), 500u);
  EXPECT_EQ(part.part_index(), 1u);
  EXPECT_EQ(part.part_count(), 5u);
  EXPECT_EQ(part.replica_index(), 2u);
  EXPECT_EQ(part.replicas(), 4u);
}

TEST_F(MasterLinkTest, HeartbeatsKeepTheirIntervalWithOrWithoutRoom) {
  GoLive();
  Receive(Ack(1));
  LinkOutput out = Tick();
  EXPECT_EQ(out.wake_at, now_ + kHeartbeat);
  for (uint64_t sequence = 2; sequence < 20; ++sequence) {
    now_ = out.wake_at;
    out = Tick(/*has_room=*/sequence % 2 == 0);
    ASSERT_THAT(out.send, SizeIs(1));
    EXPECT_EQ(out.send[0].heartbeat().sequence(), sequence);
    Receive(Ack(sequence));
    out = Tick();
    EXPECT_THAT(out.send, IsEmpty());
  }
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(MasterLinkTest, AMasterThatDoesNotAnswerHeartbeatsIsLeft) {
  GoLive();
  Receive(Ack(1));
  Receive(Ack(0));
  Receive(Ack(99));  // never sent
  now_ += kHeartbeat;
  Tick();
  Receive(Ack(1));  // old
  now_ += kTimeout - kHeartbeat - absl::Nanoseconds(1);
  EXPECT_FALSE(Tick().disconnect);
  const LinkOutput out = TickAfter(absl::Nanoseconds(1));
  EXPECT_TRUE(out.disconnect);
  EXPECT_THAT(out.send, IsEmpty());
  EXPECT_EQ(link_.state(), LinkState::kWaiting);
  EXPECT_EQ(link_.term(), Term{});
  EXPECT_THAT(link_.last_failure(), StatusIs(StatusCode::kUnavailable));
}

TEST_F(MasterLinkTest, AMasterThatSendsCommandsIsThere) {
  GoLive();
  now_ += kTimeout - absl::Nanoseconds(1);
  Receive(Free(1, 1, {}));
  EXPECT_FALSE(TickAfter(absl::Nanoseconds(1)).disconnect);
  EXPECT_TRUE(TickAfter(kTimeout).disconnect);
}

TEST_F(MasterLinkTest, SealsAreReportedSoonAndInBatches) {
  GoLive();
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  LinkOutput out = Tick();
  EXPECT_THAT(Keys(out.send), IsEmpty());
  EXPECT_EQ(out.wake_at, now_ + options_.seal_report_delay);
  now_ = out.wake_at;
  EXPECT_THAT(Keys(Tick(/*has_room=*/false).send), IsEmpty());
  EXPECT_THAT(Keys(Tick().send), ElementsAre("report a"));
  // A full message does not wait, nor does the rest.
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, i + 2), At(i * 128, 128), absl::StrCat(i)), IsOk());
  }
  EXPECT_THAT(Keys(Tick().send), ElementsAre("report 0", "report 1"));
  EXPECT_THAT(Keys(Tick().send), ElementsAre("report 2"));
  EXPECT_THAT(Keys(Tick().send), IsEmpty());
}

TEST_F(MasterLinkTest, SealsDuringTheUploadAreReportedAfterIt) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "before"), IsOk());
  Register();
  EXPECT_THAT(Keys(Tick().send), ElementsAre("inventory before"));
  ASSERT_THAT(pool_.Put(Gen(1, 2), At(256, 128, 0), "during"), IsOk());
  Upload();
  Tick();
  now_ += options_.seal_report_delay;
  EXPECT_THAT(Keys(Tick().send), ElementsAre("report during"));
}

TEST_F(MasterLinkTest, WhatWasFreedBeforeItsReportIsNotReported) {
  GoLive();
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  Receive(Free(1, 1, {Gen(1, 1)}));
  Tick();
  now_ += options_.seal_report_delay;
  EXPECT_THAT(Tick().send, IsEmpty());
}

class OverflowTest : public MasterLinkTest {
 protected:
  OverflowTest() : MasterLinkTest({.seal_reports_max = 3}) {}
};

TEST_F(OverflowTest, MoreSealsThanAreRememberedCostANewSession) {
  GoLive();
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_THAT(pool_.Put(Gen(1, i + 1), At(i * 128, 128), absl::StrCat(i)), IsOk());
  }
  EXPECT_LE(Tick(/*has_room=*/true).wake_at, now_ + options_.backoff_min);
  EXPECT_EQ(link_.state(), LinkState::kWaiting);
  EXPECT_EQ(metrics_.report_overflows.value(), 1u);
  Register();
  EXPECT_THAT(Keys(Upload()),
              ElementsAre("inventory 0", "inventory 1", "inventory 2", "inventory 3"));
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(MasterLinkTest, AMasterOfAnOlderTermIsLeftForTheNext) {
  pool_.index().NoteTerm(Term{8});
  Connect();
  EXPECT_TRUE(Receive(Registered(7)).disconnect);
  EXPECT_THAT(link_.last_failure(),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_EQ(Tick().connect, "b:2");
  link_.OnConnected(now_);
  Receive(Registered(8));
  EXPECT_EQ(link_.state(), LinkState::kUploading);
}

TEST_F(MasterLinkTest, BrokenMastersAreLeft) {
  const auto is_left = [this](const v1::MasterMessage& message) {
    Connect();
    return Receive(message).disconnect && link_.state() == LinkState::kWaiting;
  };
  EXPECT_TRUE(is_left(Registered(0)));
  EXPECT_TRUE(is_left(Registered(~0u)));
  v1::MasterMessage other_version = Registered(1);
  other_version.mutable_registered()->mutable_version()->set_major(kWireMajor + 1);
  EXPECT_TRUE(is_left(other_version));
  EXPECT_THAT(link_.last_failure(),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
  EXPECT_TRUE(is_left(Free(1, 1, {})));
  v1::MasterMessage refused;
  StatusToProto(absl::FailedPreconditionError("the name is taken"),
                refused.mutable_refused()->mutable_status());
  EXPECT_TRUE(is_left(refused));
  EXPECT_THAT(link_.last_failure().message(), HasSubstr("the name is taken"));
  refused.mutable_refused()->clear_status();
  EXPECT_TRUE(is_left(refused));
  EXPECT_FALSE(link_.last_failure().ok());
  GoLive();
  EXPECT_TRUE(Receive(Registered(1)).disconnect);
  GoLive();
  EXPECT_TRUE(Receive(Free(1, ~0u, {})).disconnect);
  EXPECT_EQ(pool_.index().newest_term(), Term{1});
}

// It has restarted with its pool, and does not know what was freed since it was granted.
TEST_F(MasterLinkTest, AfterARestartNothingIsWrittenThatWasGrantedBefore) {
  pool_.index().NoteTerm(Term{1});
  pool_.index().AwaitFloor();
  const auto is_stale = Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration);
  EXPECT_THAT(pool_.Put(Gen(1, 5), At(0, 128), "a"), is_stale);
  Connect();
  EXPECT_TRUE(Receive(Registered(1, Gen(2, 1))).disconnect) << "granted in a term to come";
  EXPECT_THAT(pool_.Put(Gen(1, 5), At(0, 128), "a"), is_stale);
  Connect();
  EXPECT_TRUE(Receive(Registered(0, Gen(1, 4))).disconnect) << "of no master";
  EXPECT_THAT(pool_.Put(Gen(1, 5), At(0, 128), "a"), is_stale);
  Connect();
  Receive(Registered(1, Gen(1, 4)));
  Upload();
  EXPECT_THAT(pool_.Put(Gen(1, 4), At(0, 128), "a"), is_stale);
  EXPECT_THAT(pool_.Put(Gen(1, 5), At(0, 128), "a"), IsOk());
  // A session that is lost later ends no grant.
  link_.OnDisconnected(absl::OkStatus(), now_);
  Connect();
  Receive(Registered(1, Gen(1, 9)));
  EXPECT_THAT(pool_.Put(Gen(1, 6), At(128, 128), "b"), IsOk());
}

TEST_F(MasterLinkTest, AMasterThatDoesNotSayWhatItHasGrantedSetsNoFloor) {
  pool_.index().NoteTerm(Term{1});
  pool_.index().AwaitFloor();
  Register();
  EXPECT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
}

TEST_F(MasterLinkTest, OddTimesAreReplacedByReasonableOnes) {
  for (const uint64_t wild : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    Connect();
    v1::MasterMessage registered = Registered(1);
    registered.mutable_registered()->set_heartbeat_interval_ms(wild);
    registered.mutable_registered()->set_session_timeout_ms(wild);
    Receive(registered);
    Upload();
    const absl::Duration until_wake = Tick().wake_at - now_;
    EXPECT_GE(until_wake, absl::Milliseconds(10));
    EXPECT_LE(until_wake, absl::Minutes(1));
    link_.OnDisconnected(absl::OkStatus(), now_);
  }
}

TEST_F(MasterLinkTest, SilentPeersAreTimedOut) {
  LinkOutput out = Tick();
  ASSERT_TRUE(out.connect.has_value());
  const absl::Duration patience = out.wake_at - now_;
  EXPECT_LE(patience, absl::Seconds(1)) << "there is another master";
  EXPECT_TRUE(TickAfter(patience).disconnect);
  Connect();
  EXPECT_FALSE(TickAfter(patience - absl::Nanoseconds(1)).disconnect);
  EXPECT_TRUE(TickAfter(absl::Nanoseconds(1)).disconnect);
}

TEST_F(MasterLinkTest, RoundsBackOffWithJitterAndAreLoggedOncePerCause) {
  absl::Duration longest = absl::ZeroDuration();
  for (int round = 0; round < 12; ++round) {
    LinkOutput out;
    for (int master = 0; master < 2; ++master) {
      while (!Tick().connect.has_value()) now_ = Tick().wake_at;
      out = link_.OnDisconnected(absl::UnavailableError("refused"), now_);
    }
    const absl::Duration expected =
        std::min(options_.backoff_max, options_.backoff_min * (1 << round));
    EXPECT_GE(out.wake_at - now_, expected / 2);
    EXPECT_LE(out.wake_at - now_, expected);
    longest = std::max(longest, out.wake_at - now_);
  }
  EXPECT_GT(longest, options_.backoff_max / 2);
  EXPECT_THAT(log_.lines(), SizeIs(2));
  // A session that works starts over.
  GoLive();
  TickAfter(kHeartbeat);
  AckAll();
  link_.OnDisconnected(absl::UnavailableError("gone"), now_);
  ASSERT_TRUE(Tick().connect.has_value()) << "the other one, at once";
  const LinkOutput out = link_.OnDisconnected(absl::UnavailableError("gone"), now_);
  EXPECT_LE(out.wake_at - now_, options_.backoff_min);
}

TEST_F(MasterLinkTest, MastersThatHangUpAfterEachInventoryAreNotHammered) {
  absl::Duration wait;
  for (int i = 0; i < 16; ++i) {
    GoLive();
    Receive(Ack(1));  // of the heartbeat that went out with the registration
    wait = link_.OnDisconnected(absl::UnavailableError("gone"), now_).wake_at - now_;
  }
  EXPECT_GE(wait, options_.backoff_max / 2);
}

TEST_F(MasterLinkTest, ANewSessionUploadsAnewAndForgetsTheOldOne) {
  GoLive();
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  link_.OnDisconnected(absl::OkStatus(), now_);
  EXPECT_THAT(Receive(Free(1, 1, {Gen(1, 1)})).send, IsEmpty());  // of the old connection
  EXPECT_TRUE(pool_.IsReadable(Gen(1, 1), At(0, 128)));
  Register();
  const auto sent = Upload();
  EXPECT_EQ(sent.front().heartbeat().sequence(), 1u);
  EXPECT_THAT(Keys(sent), ElementsAre("inventory a"));
  Tick();
  now_ += options_.seal_report_delay;
  EXPECT_THAT(Keys(Tick().send), IsEmpty());
}

TEST_F(MasterLinkTest, RandomMessagesNeverConfuseIt) {
  Random random(7);
  const std::vector<v1::MasterMessage> messages = {Registered(1),
                                                   Registered(0),
                                                   Registered(3),
                                                   Ack(1),
                                                   Ack(2),
                                                   Ack(~uint64_t{0}),
                                                   Free(1, 1, {}),
                                                   Free(1, ~0u, {Gen(1, 1)}),
                                                   v1::MasterMessage(),
                                                   {}};
  for (int step = 0; step < 20000; ++step) {
    switch (random.Below(5)) {
      case 0: link_.OnConnected(now_); break;
      case 1: link_.OnDisconnected(absl::OkStatus(), now_); break;
      case 2: now_ += absl::Milliseconds(static_cast<int64_t>(random.Below(400))); break;
      default: Receive(messages[random.Below(messages.size())]);
    }
    const LinkOutput out = Tick(random.OneIn(2));
    ASSERT_LE(out.send.size(), 2u);
    ASSERT_FALSE(out.disconnect && !out.send.empty());
    ASSERT_FALSE(link_.state() == LinkState::kWaiting && out.connect.has_value());
  }
}

}  // namespace
}  // namespace moonpool::storage_node
