#include "common/rpc/status_proto.h"

#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"

namespace moonpool {
namespace {

TEST(StatusProto, RoundTripKeepsCodeMessageAndDetail) {
  const absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace, "full",
                {.hint = "wait",
                 .key = std::string("\0k", 2),
                 .node = "n1",
                 .retry_after = absl::Milliseconds(1500),
                 .leader = "10.0.0.2:7400"});
  v1::Status proto;
  StatusToProto(status, &proto);
  EXPECT_EQ(StatusFromProto(proto), status);
}

TEST(StatusProto, OkIsEmpty) {
  v1::Status proto;
  proto.set_code(3);
  StatusToProto(absl::OkStatus(), &proto);
  EXPECT_EQ(proto.ByteSizeLong(), 0u);
  EXPECT_THAT(StatusFromProto(proto), IsOk());
}

TEST(StatusProto, AnUnknownCodeFromANewerPeerIsStillAnError) {
  v1::Status proto;
  proto.set_code(99);
  EXPECT_THAT(StatusFromProto(proto), StatusIs(absl::StatusCode::kUnknown));
}

TEST(StatusProto, NoPeerAdvisesToRetryInThePast) {
  v1::Status proto;
  proto.set_code(8);
  proto.mutable_detail()->set_retry_after_ms(~uint64_t{0});
  const std::optional<ErrorDetail> detail = DetailOf(StatusFromProto(proto));
  ASSERT_TRUE(detail.has_value());
  EXPECT_GT(detail->retry_after, absl::Hours(1));
}

}  // namespace
}  // namespace moonpool
