#include "storage_node/link/master_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kHeartbeat = absl::Milliseconds(100);
constexpr auto kTimeout = absl::Milliseconds(350);

v1::MasterMessage Registered(uint32_t term) {
  v1::MasterMessage message;
  v1::Registered& registered = *message.mutable_registered();
  registered.mutable_version()->set_major(kWireMajor);
  registered.set_term(term);
  registered.set_node_id(3);
  registered.set_heartbeat_interval_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(kHeartbeat)));
  registered.set_session_timeout_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(kTimeout)));
  return message;
}
v1::MasterMessage Ack(uint64_t sequence) {
  v1::MasterMessage message;
  message.mutable_heartbeat_ack()->set_sequence(sequence);
  return message;
}
v1::MasterMessage Free(uint64_t command_id, uint32_t term, std::vector<Generation> generations) {
  v1::MasterMessage message;
  v1::Command& command = *message.mutable_command();
  command.set_command_id(command_id);
  command.set_term(term);
  command.mutable_free();
  for (const Generation g : generations) command.mutable_free()->add_generations(g.value);
  return message;
}

class MasterLinkTest : public ::testing::Test {
 protected:
  explicit MasterLinkTest(ExtentIndexOptions index_options = {}) : pool_(2, index_options) {}

  LinkOutput Tick(bool has_room = true) { return link_.Tick(now_, has_room); }
  LinkOutput TickAfter(absl::Duration duration) {
    now_ += duration;
    return Tick();
  }
  LinkOutput Receive(const v1::MasterMessage& message) { return link_.OnMessage(message, now_); }

  // Through back-off, connect and registration.
  void Connect() {
    while (link_.state() == LinkState::kWaiting) {
      const LinkOutput out = Tick();
      if (!out.connect.has_value()) now_ = out.wake_at;
    }
    link_.OnConnected(now_);
    ASSERT_EQ(link_.state(), LinkState::kRegistering);
  }
  void Register(uint32_t term = 1) {
    Connect();
    Receive(Registered(term));
    ASSERT_EQ(link_.state(), LinkState::kUploading);
  }
  // Everything that is sent until the inventory is complete.
  std::vector<v1::NodeMessage> Upload() {
    std::vector<v1::NodeMessage> sent;
    while (link_.state() == LinkState::kUploading) {
      for (auto& message : Tick().send) sent.push_back(std::move(message));
    }
    return sent;
  }
  void GoLive(uint32_t term = 1) {
    Register(term);
    Upload();
    ASSERT_EQ(link_.state(), LinkState::kLive);
  }
  void AckAll() {
    for (uint64_t sequence = 1; sequence < 100; ++sequence) Receive(Ack(sequence));
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(100);
  TestLogger log_;
  metrics::Registry registry_;
  LinkMetrics metrics_{registry_};
  TestPool pool_;
  MasterLinkOptions options_{.masters = {"a:1", "b:2"}, .parts_per_message = 2};
  MasterLink link_{{.name = "n1",
                    .incarnation = Incarnation{77},
                    .host_id = "host",
                    .rack = "r1",
                    .tcp_address = "10.0.0.1:7",
                    .shm_path = "/run/n1.sock"},
                   options_,
                   pool_.index(),
                   metrics_,
                   Random(1),
                   log_.logger()};
};

std::vector<std::string> Keys(const std::vector<v1::NodeMessage>& messages) {
  std::vector<std::string> keys;
  for (const auto& message : messages) {
    for (const auto& part : message.inventory().parts()) keys.push_back("inventory " + part.key());
    for (const auto& part : message.seal_report().parts()) keys.push_back("report " + part.key());
  }
  return keys;
}

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

TEST_F(MasterLinkTest, FreeIsDoneAndAnsweredHoweverOften) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  GoLive();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const LinkOutput out = Receive(Free(42, 1, {Gen(1, 1), Gen(9, 9)}));
    ASSERT_THAT(out.send, SizeIs(1));
    EXPECT_EQ(out.send[0].command_result().command_id(), 42u);
    EXPECT_THAT(StatusFromProto(out.send[0].command_result().status()), IsOk());
  }
  EXPECT_FALSE(pool_.IsReadable(Gen(1, 1), At(0, 128)));
  EXPECT_EQ(metrics_.freed_parts.value(), 1u);
}

// The pool remembers a bounded number of what was freed, and refuses all up to the newest it
// forgot.
TEST_F(MasterLinkTest, FreeingWhatNoTermHasGrantedShutsNobodyOut) {
  GoLive(1);
  constexpr uint32_t kMoreThanAreRemembered = 70'000;
  std::vector<Generation> garbled;
  for (uint32_t i = 0; i < kMoreThanAreRemembered; ++i) garbled.push_back(Gen(~0u, i));
  const LinkOutput out = Receive(Free(1, 1, garbled));
  EXPECT_THAT(StatusFromProto(out.send[0].command_result().status()), IsOk());
  EXPECT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
}

TEST_F(MasterLinkTest, ACommandOfAnOlderTermIsRefusedAndOneOfANewerRaisesTheTerm) {
  ASSERT_THAT(pool_.Put(Gen(5, 1), At(0, 128), "a"), IsOk());
  GoLive(5);
  LinkOutput out = Receive(Free(1, 4, {Gen(5, 1)}));
  EXPECT_THAT(StatusFromProto(out.send[0].command_result().status()),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_TRUE(pool_.IsReadable(Gen(5, 1), At(0, 128)));
  out = Receive(Free(2, 6, {}));
  EXPECT_THAT(StatusFromProto(out.send[0].command_result().status()), IsOk());
  EXPECT_EQ(pool_.index().newest_term(), Term{6});
  EXPECT_EQ(metrics_.refused_commands.value(), 1u);
}

TEST_F(MasterLinkTest, WhatIsOlderThanTheOpenGrantsOfTheMasterIsNotWritten) {
  GoLive(5);
  const auto status_of = [&](Generation oldest_open, Generation newest, uint32_t term) {
    v1::MasterMessage message = Free(1, term, {});
    message.mutable_command()->mutable_free()->set_oldest_open(oldest_open.value);
    message.mutable_command()->mutable_free()->set_newest(newest.value);
    return StatusFromProto(Receive(message).send[0].command_result().status());
  };
  EXPECT_THAT(status_of(Gen(4, 90), Gen(4, 99), 4),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  // Nobody can have granted these: they would refuse what is granted next.
  const auto is_bad = Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  EXPECT_THAT(status_of(Gen(5, 11), Gen(5, 9), 5), is_bad);
  EXPECT_THAT(status_of(Gen(6, 1), Gen(6, 9), 5), is_bad);
  EXPECT_THAT(status_of(Generation{~uint64_t{0}}, Generation{~uint64_t{0}}, 5), is_bad);
  EXPECT_THAT(pool_.Put(Gen(5, 1), At(0, 128), "a"), IsOk());

  EXPECT_THAT(status_of(Gen(5, 10), Gen(5, 9), 5), IsOk()) << "none is open";
  EXPECT_THAT(pool_.Put(Gen(5, 9), At(128, 128), "b"),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_THAT(pool_.Put(Gen(5, 10), At(128, 128), "b"), IsOk());
}

TEST_F(MasterLinkTest, ATermThatHasRisenIsLearntFromAnAcknowledgement) {
  GoLive(5);
  v1::MasterMessage told;
  for (const auto& [term, expected] : {std::pair{7u, 7u}, std::pair{6u, 7u}, std::pair{0u, 7u}}) {
    told.mutable_heartbeat_ack()->set_term(term);  // on its own: sequence 0
    Receive(told);
    EXPECT_EQ(link_.term(), Term{expected});
    EXPECT_EQ(pool_.index().newest_term(), Term{expected});
  }
  told.mutable_heartbeat_ack()->set_term(~0u);
  EXPECT_TRUE(Receive(told).disconnect);
  EXPECT_EQ(pool_.index().newest_term(), Term{7});
}

TEST_F(MasterLinkTest, AnUnknownCommandIsAnsweredAsSuch) {
  GoLive();
  v1::MasterMessage message;
  message.mutable_command()->set_command_id(7);
  message.mutable_command()->set_term(1);
  const LinkOutput out = Receive(message);
  EXPECT_THAT(StatusFromProto(out.send[0].command_result().status()),
              StatusIs(StatusCode::kUnimplemented));
  EXPECT_THAT(Receive(v1::MasterMessage()).send, IsEmpty());
  EXPECT_EQ(link_.state(), LinkState::kLive);
}

TEST_F(MasterLinkTest, AMasterOfAnOlderTermIsLeftForTheNext) {
  pool_.index().NoteTerm(Term{8});
  Connect();
  EXPECT_TRUE(Receive(Registered(7)).disconnect);
  EXPECT_THAT(link_.last_failure(),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  now_ = Tick().wake_at;
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
  EXPECT_EQ(out.wake_at, now_ + options_.connect_timeout);
  EXPECT_TRUE(TickAfter(options_.connect_timeout).disconnect);
  Connect();
  EXPECT_FALSE(TickAfter(options_.register_timeout - absl::Nanoseconds(1)).disconnect);
  EXPECT_TRUE(TickAfter(absl::Nanoseconds(1)).disconnect);
}

TEST_F(MasterLinkTest, AttemptsBackOffWithJitterAndAreLoggedOncePerCause) {
  absl::Duration longest = absl::ZeroDuration();
  for (int attempt = 0; attempt < 12; ++attempt) {
    while (!Tick().connect.has_value()) now_ = Tick().wake_at;
    const LinkOutput out = link_.OnDisconnected(absl::UnavailableError("refused"), now_);
    const absl::Duration expected =
        std::min(options_.backoff_max, options_.backoff_min * (1 << attempt));
    EXPECT_GE(out.wake_at - now_, expected / 2);
    EXPECT_LE(out.wake_at - now_, expected);
    longest = std::max(longest, out.wake_at - now_);
  }
  EXPECT_GT(longest, options_.backoff_max / 2);
  EXPECT_THAT(log_.lines(), SizeIs(1));
  // A session that works starts over.
  GoLive();
  AckAll();
  const LinkOutput out = link_.OnDisconnected(absl::UnavailableError("gone"), now_);
  EXPECT_LE(out.wake_at - now_, options_.backoff_min);
}

TEST_F(MasterLinkTest, AMasterThatHangsUpAfterEachInventoryIsNotHammered) {
  absl::Duration wait;
  for (int i = 0; i < 8; ++i) {
    GoLive();
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
