// Requests that are read where they lie: as protobuf reads them.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "common/random.h"
#include "master/handlers/request_views.h"
#include "master/handlers/testing/check_request.h"

namespace moonpool::master {
namespace {

void FillHeader(Random& random, v1::RequestHeader* header) {
  header->mutable_version()->set_major(static_cast<uint32_t>(random.Below(3)));
  header->set_client_id(random.Next());
  header->set_host_id(std::string(random.Below(40), 'h'));
  header->set_namespace_(std::string(random.Below(400), 'n'));
  for (uint64_t i = random.Below(100); i > 0; --i) header->add_touched()->set_generation(i);
}

std::string AnyText(Random& random) {
  return std::string(random.Below(200), static_cast<char>(random.Next()));
}

struct Looks {
  static v1::LocateRequest Any(Random& random) {
    v1::LocateRequest request;
    if (random.Below(8) != 0) FillHeader(random, request.mutable_header());
    for (uint64_t i = random.Below(100); i > 0; --i) request.add_keys(AnyText(random));
    if (random.Below(2) == 0) request.set_lease_ms(random.Next() >> random.Below(64));
    request.set_wait_for_writer(random.Below(2) == 0);
    return request;
  }
  static bool Read(const std::string& bytes) {
    return CheckRequest<KeysRequest, v1::LocateRequest>(bytes);
  }
};

struct Puts {
  static v1::StartPutsRequest Any(Random& random) {
    v1::StartPutsRequest request;
    if (random.Below(8) != 0) FillHeader(random, request.mutable_header());
    request.set_request_id(random.Next());
    for (uint64_t i = random.Below(100); i > 0; --i) {
      v1::PutKey& put = *request.add_puts();
      put.set_key(AnyText(random));
      put.set_size_bytes(random.Next() >> random.Below(64));
      if (random.Below(2) == 0) put.set_parent(AnyText(random));
    }
    request.set_replicas(static_cast<uint32_t>(random.Next() >> random.Below(64)));
    request.set_min_replicas(static_cast<uint32_t>(random.Below(4)));
    request.set_wait_for_space(random.Below(2) == 0);
    request.set_wait_for_writer(random.Below(2) == 0);
    return request;
  }
  static bool Read(const std::string& bytes) {
    return CheckRequest<StartPutsView, v1::StartPutsRequest>(bytes);
  }
};

template <typename Kind>
class RequestViewsTest : public testing::Test {};
using Kinds = testing::Types<Looks, Puts>;
TYPED_TEST_SUITE(RequestViewsTest, Kinds);

TYPED_TEST(RequestViewsTest, AreReadAsProtobufReadsThem) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = TypeParam::Any(random).SerializeAsString();
    EXPECT_TRUE(TypeParam::Read(bytes));
    EXPECT_TRUE(TypeParam::Read(bytes + TypeParam::Any(random).SerializeAsString()));  // merged
  }
}

TYPED_TEST(RequestViewsTest, BrokenBytesAreRefusedAsProtobufRefusesThem) {
  const google::protobuf::LogSilencer silencer;
  Random random(2);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = TypeParam::Any(random).SerializeAsString();
    if (bytes.empty()) continue;
    const size_t at = random.Below(bytes.size());
    if (!TypeParam::Read(bytes.substr(0, at))) ++refused;
    bytes[at] = static_cast<char>(random.Next());
    if (!TypeParam::Read(bytes)) ++refused;
  }
  EXPECT_GT(refused, 100);
}

TEST(RequestViewsTest, WhatIsRefusedSaysSo) {
  EXPECT_EQ(ReasonOf(KeysRequest("\x07").status()), ErrorReason::kBadArgument);
  EXPECT_EQ(ReasonOf(StartPutsView("\x1a\x05").status()), ErrorReason::kBadArgument);
}

}  // namespace
}  // namespace moonpool::master
