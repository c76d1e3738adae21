// Requests that are read where they lie: as protobuf reads them.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "common/random.h"
#include "master/handlers/request_views.h"

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
  using Message = v1::LocateRequest;
  using View = KeysRequest;

  static Message Any(Random& random) {
    Message request;
    if (random.Below(8) != 0) FillHeader(random, request.mutable_header());
    for (uint64_t i = random.Below(100); i > 0; --i) request.add_keys(AnyText(random));
    if (random.Below(2) == 0) request.set_lease_ms(random.Next() >> random.Below(64));
    request.set_wait_for_writer(random.Below(2) == 0);
    return request;
  }
  static void ExpectSame(const View& read, const Message& request) {
    EXPECT_EQ(read.keys(), ViewsOf(request.keys()));
    EXPECT_EQ(read.batch(), request.keys_size());
    EXPECT_EQ(read.lease(), FromWireMs(request.lease_ms()));
    EXPECT_EQ(read.wait_for_writer(), request.wait_for_writer());
  }
};

struct Puts {
  using Message = v1::StartPutsRequest;
  using View = StartPutsView;

  static Message Any(Random& random) {
    Message request;
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
  static void ExpectSame(const View& read, const Message& request) {
    EXPECT_EQ(read.request_id(), request.request_id());
    EXPECT_EQ(read.replicas(), request.replicas());
    EXPECT_EQ(read.min_replicas(), request.min_replicas());
    EXPECT_EQ(read.wait_for_space(), request.wait_for_space());
    EXPECT_EQ(read.wait_for_writer(), request.wait_for_writer());
    ASSERT_EQ(read.batch(), request.puts_size());
    for (int i = 0; i < read.batch(); ++i) {
      const PutKey& put = read.puts()[static_cast<size_t>(i)];
      EXPECT_EQ(put.key, request.puts(i).key());
      EXPECT_EQ(put.size_bytes, request.puts(i).size_bytes());
      EXPECT_EQ(put.parent, request.puts(i).parent());
    }
  }
};

// True: the bytes are a request.
template <typename Kind>
bool Read(const std::string& bytes) {
  const typename Kind::View read(bytes);
  typename Kind::Message request;
  const bool is_parsed = request.ParseFromString(bytes);
  EXPECT_EQ(read.status().ok(), is_parsed);
  if (!read.status().ok()) {
    EXPECT_EQ(ReasonOf(read.status()), ErrorReason::kBadArgument);
    return false;
  }
  EXPECT_EQ(read.header().SerializeAsString(), request.header().SerializeAsString());
  Kind::ExpectSame(read, request);
  return true;
}

template <typename Kind>
class RequestViewsTest : public testing::Test {};
using Kinds = testing::Types<Looks, Puts>;
TYPED_TEST_SUITE(RequestViewsTest, Kinds);

TYPED_TEST(RequestViewsTest, AreReadAsProtobufReadsThem) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = TypeParam::Any(random).SerializeAsString();
    EXPECT_TRUE(Read<TypeParam>(bytes));
    EXPECT_TRUE(Read<TypeParam>(bytes + TypeParam::Any(random).SerializeAsString()));  // merged
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
    if (!Read<TypeParam>(bytes.substr(0, at))) ++refused;
    // A tag of another type, or a length; groups are another matter.
    bytes[at] = static_cast<char>(random.Next());
    const auto type = static_cast<uint8_t>(bytes[at]) & 7;
    if (type == 3 || type == 4) continue;
    if (!Read<TypeParam>(bytes)) ++refused;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace moonpool::master
