// What a master tells a node to do.
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

}  // namespace
}  // namespace moonpool::storage_node
