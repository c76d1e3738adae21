#include "common/rpc/grpc/unreachable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"

namespace moonpool {
namespace {

// The texts are those of gRPC 1.51.
TEST(Unreachable, TheCauseIsKeptAndTheRestIsNot) {
  EXPECT_EQ(DescribeUnreachable("127.0.0.1:1",
                                "failed to connect to all addresses; last error: UNKNOWN: "
                                "ipv4:127.0.0.1:1: Failed to connect to remote host: Connection "
                                "refused"),
            "127.0.0.1:1 (connection refused)");
  EXPECT_EQ(DescribeUnreachable("nosuch.invalid:7400",
                                "DNS resolution failed for nosuch.invalid:7400: C-ares status is "
                                "not ARES_SUCCESS qtype=A name=nosuch.invalid is_balancer=0: Could "
                                "not contact DNS servers"),
            "nosuch.invalid:7400 (the name does not resolve)");
  EXPECT_EQ(DescribeUnreachable("a:1", "something of another version"), "a:1");
}

TEST(Unreachable, WhatNobodyCancelledWasCutOffByAServerThatShutsDown) {
  const grpc::Status bare(grpc::StatusCode::CANCELLED, "CANCELLED");
  const absl::Status failure = FromGrpcNotCancelled(bare);
  EXPECT_EQ(failure.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DescribeUnreachable("a:1", failure.message()), "a:1 (it shuts down)");
}

TEST(Unreachable, APeerThatSaysCancelledItselfIsTakenAtItsWord) {
  const absl::Status said =
      MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller, "by another");
  EXPECT_THAT(FromGrpcNotCancelled(ToGrpc(said)),
              Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_THAT(FromGrpcNotCancelled(grpc::Status::OK), IsOk());
}

TEST(Unreachable, OneSentenceForAllThatWereTried) {
  const absl::Status status = NoMasterAnswers({"a:1 (connection refused)", "b:2"});
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_EQ(Describe(status),
            "UNAVAILABLE (PEER_UNREACHABLE): no master answers at a:1 (connection refused), b:2; "
            "is moonpool-master running there?");
}

}  // namespace
}  // namespace moonpool
