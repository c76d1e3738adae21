// What a master tells a node to do.
#include "storage_node/link/master_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/testing/status_matchers.h"
#include "storage_node/link/sealed_part.h"
#include "storage_node/link/testing/master_link_fixture.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

v1::MasterMessage Copy(uint64_t command_id, uint32_t term, Generation claim) {
  v1::MasterMessage message;
  v1::Command& command = *message.mutable_command();
  command.set_command_id(command_id);
  command.set_term(term);
  v1::Copy& copy = *command.mutable_copy();
  SealedPartToProto(RecordFor(Gen(1, 1), At(64, 192), "a"), copy.mutable_part());
  copy.set_claim(claim.value);
  copy.mutable_source()->set_name("n2");
  copy.mutable_source()->set_incarnation(5);
  copy.mutable_source()->set_host_id("other");
  copy.mutable_source()->set_tcp_address("10.0.0.2:7");
  copy.mutable_source()->set_shm_path("/run/n2.sock");
  copy.mutable_source_extent()->set_offset(640);
  copy.mutable_source_extent()->set_length(192);
  copy.set_timeout_ms(3000);
  return message;
}

absl::Status ResultOf(const LinkOutput& out, uint64_t command_id) {
  if (out.send.size() != 1 || out.send[0].command_result().command_id() != command_id) {
    return absl::InternalError("not answered");
  }
  return StatusFromProto(out.send[0].command_result().status());
}

TEST_F(MasterLinkTest, ACopyIsAnsweredWhenItIsDone) {
  GoLive();
  Tick();
  EXPECT_THAT(Receive(Copy(7, 1, Gen(1, 5))).send, IsEmpty());
  const std::optional<CopyJob> job = copies_.Take();
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->order.record, RecordFor(Gen(1, 1), At(64, 192), "a"));
  EXPECT_EQ(job->order.claim, Gen(1, 5));
  EXPECT_EQ(job->order.source_extent, At(640, 192));
  EXPECT_EQ(job->order.source, (transport::PeerAddress{.name = "n2",
                                                       .incarnation = Incarnation{5},
                                                       .host_id = "other",
                                                       .tcp_address = "10.0.0.2:7",
                                                       .shm_path = "/run/n2.sock"}));
  EXPECT_EQ(job->context.deadline, now_ + absl::Seconds(3));
  EXPECT_THAT(Tick().send, IsEmpty());
  copies_.Finish(job->id, MakeError(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch, "x"));
  EXPECT_THAT(Tick(/*has_room=*/false).send, IsEmpty());
  EXPECT_EQ(Tick(/*has_room=*/false).wake_at > now_, true);
  EXPECT_THAT(ResultOf(Tick(), 7), Fails(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  EXPECT_THAT(Tick().send, IsEmpty());
}

TEST_F(MasterLinkTest, ACopyThatCannotBeIsRefusedAtOnce) {
  GoLive(2);
  const auto refusal = [&](const std::function<void(v1::Copy&)>& spoil) {
    v1::MasterMessage message = Copy(7, 2, Gen(2, 5));
    spoil(*message.mutable_command()->mutable_copy());
    return ResultOf(Receive(message), 7);
  };
  const auto is_bad = Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.set_claim(Gen(3, 1).value); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.set_claim(Gen(1, 1).value); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.clear_part(); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.mutable_part()->clear_key(); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.mutable_part()->set_part_count(~0u); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.mutable_part()->set_part_index(65536); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.mutable_part()->set_replica_index(256); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.clear_source_extent(); }), is_bad);
  EXPECT_THAT(refusal([](v1::Copy& copy) { copy.mutable_source_extent()->set_length(191); }),
              is_bad);
  EXPECT_FALSE(copies_.has_waiting());
  EXPECT_EQ(metrics_.refused_commands.value(), 9u);
  EXPECT_THAT(ResultOf(Receive(Copy(8, 1, Gen(1, 5))), 8),
              Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
}

TEST_F(MasterLinkTest, MoreCopiesThanTheNodeTakesAreRefused) {
  GoLive();
  for (uint32_t i = 0; i < kCopiesMax; ++i) Receive(Copy(i, 1, Gen(1, 5 + i)));
  EXPECT_THAT(ResultOf(Receive(Copy(9, 1, Gen(1, 50))), 9),
              Fails(StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
}

TEST_F(MasterLinkTest, FreeOfItsClaimOrAHigherTermEndsACopy) {
  GoLive();
  Tick();
  Receive(Copy(7, 1, Gen(1, 5)));
  EXPECT_THAT(ResultOf(Receive(Free(8, 1, {Gen(1, 1)})), 8), IsOk());
  EXPECT_TRUE(copies_.has_waiting()) << "the part that was here before is no claim";
  EXPECT_THAT(ResultOf(Receive(Free(9, 1, {Gen(1, 5)})), 9), IsOk());
  EXPECT_THAT(ResultOf(Tick(), 7), Fails(StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  Receive(Copy(10, 1, Gen(1, 6)));
  v1::MasterMessage risen;
  risen.mutable_heartbeat_ack()->set_term(2);
  Receive(risen);
  EXPECT_THAT(ResultOf(Tick(), 10), Fails(StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
}

TEST_F(MasterLinkTest, CopiesEndWithTheirSession) {
  GoLive();
  Receive(Copy(7, 1, Gen(1, 5)));
  Receive(Copy(8, 1, Gen(1, 6)));
  const std::optional<CopyJob> job = copies_.Take();
  link_.OnDisconnected(absl::UnavailableError("gone"), now_);
  EXPECT_TRUE(job->context.cancel.cancelled());
  EXPECT_FALSE(copies_.has_waiting());
  GoLive();
  copies_.Finish(job->id, absl::OkStatus());
  EXPECT_FALSE(copies_.has_results()) << "of a command that the new session has not heard of";
}

}  // namespace
}  // namespace moonpool::storage_node
