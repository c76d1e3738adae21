#include "common/rpc/protobuf_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "moonpool/v1/common.pb.h"

namespace moonpool {
namespace {

std::string StderrOfAMalformedMessage() {
  testing::internal::CaptureStderr();
  v1::ErrorDetail detail;
  EXPECT_FALSE(detail.ParseFromString("\x12\x02\xff\xfe")) << "the hint is no UTF-8";
  return testing::internal::GetCapturedStderr();
}

TEST(ProtobufLog, MalformedMessagesOfPeersAreNotPrinted) {
  EXPECT_THAT(StderrOfAMalformedMessage(), testing::HasSubstr("UTF-8"))
      << "else there is nothing to silence any more";
  SilenceProtobufLog();
  EXPECT_EQ(StderrOfAMalformedMessage(), "");
}

}  // namespace
}  // namespace moonpool
