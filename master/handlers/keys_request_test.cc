// Requests that are read where they lie: as protobuf reads them.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "common/random.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

v1::LocateRequest AnyRequest(Random& random) {
  v1::LocateRequest request;
  if (random.Below(8) != 0) {
    v1::RequestHeader& header = *request.mutable_header();
    header.mutable_version()->set_major(static_cast<uint32_t>(random.Below(3)));
    header.set_client_id(random.Next());
    header.set_host_id(std::string(random.Below(40), 'h'));
    header.set_namespace_(std::string(random.Below(400), 'n'));
    for (uint64_t i = random.Below(100); i > 0; --i) header.add_touched()->set_generation(i);
  }
  for (uint64_t i = random.Below(100); i > 0; --i) {
    request.add_keys(std::string(random.Below(200), static_cast<char>(random.Next())));
  }
  if (random.Below(2) == 0) request.set_lease_ms(random.Next() >> random.Below(64));
  request.set_wait_for_writer(random.Below(2) == 0);
  return request;
}

// True: the bytes are a request.
bool Read(const std::string& bytes) {
  const KeysRequest read(bytes);
  v1::LocateRequest request;
  const bool is_parsed = request.ParseFromString(bytes);
  EXPECT_EQ(read.status().ok(), is_parsed);
  if (!read.status().ok()) {
    EXPECT_EQ(ReasonOf(read.status()), ErrorReason::kBadArgument);
    return false;
  }
  EXPECT_EQ(read.header().SerializeAsString(), request.header().SerializeAsString());
  EXPECT_EQ(read.keys(), ViewsOf(request.keys()));
  EXPECT_EQ(read.lease(), FromWireMs(request.lease_ms()));
  EXPECT_EQ(read.wait_for_writer(), request.wait_for_writer());
  return true;
}

TEST(KeysRequestTest, IsReadAsProtobufReadsIt) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = AnyRequest(random).SerializeAsString();
    EXPECT_TRUE(Read(bytes));
    EXPECT_TRUE(Read(bytes + AnyRequest(random).SerializeAsString()));  // merged
  }
}

TEST(KeysRequestTest, BrokenBytesAreRefusedAsProtobufRefusesThem) {
  const google::protobuf::LogSilencer silencer;
  Random random(2);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = AnyRequest(random).SerializeAsString();
    if (bytes.empty()) continue;
    const size_t at = random.Below(bytes.size());
    if (!Read(bytes.substr(0, at))) ++refused;
    // A tag of another type, or a length; groups are another matter.
    bytes[at] = static_cast<char>(random.Next());
    const auto type = static_cast<uint8_t>(bytes[at]) & 7;
    if (type == 3 || type == 4) continue;
    if (!Read(bytes)) ++refused;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace moonpool::master
