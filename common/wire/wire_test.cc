#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "common/wire/wire_reader.h"
#include "common/wire/wire_writer.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kEdges[] = {1,       127,        128,        16383,       16384,
                               1 << 21, 1ull << 35, 1ull << 63, ~uint64_t{0}};

TEST(WireWriter, WritesWhatProtobufWrites) {
  for (const uint64_t edge : kEdges) {
    v1::NodeAddress message;
    message.set_node_id(static_cast<uint32_t>(edge));
    message.set_name("n1");
    message.set_incarnation(edge);
    message.set_shm_path("/shm");
    std::string bytes;
    {
      WireWriter writer(bytes);
      writer.Varint(v1::NodeAddress::kNodeIdFieldNumber, static_cast<uint32_t>(edge));
      writer.Bytes(v1::NodeAddress::kNameFieldNumber, "n1");
      writer.Fixed64(v1::NodeAddress::kIncarnationFieldNumber, edge);
      writer.Bytes(v1::NodeAddress::kHostIdFieldNumber, "");
      writer.Bytes(v1::NodeAddress::kShmPathFieldNumber, "/shm");
    }
    EXPECT_EQ(bytes, message.SerializeAsString()) << edge;
  }
}

// The lengths of both messages, the inner and the outer one, take one byte or more.
TEST(WireWriter, MessagesOfAnyLengthHaveTheirLengthBeforeThem) {
  for (const size_t length : {0u, 1u, 100u, 121u, 122u, 123u, 127u, 128u, 16'380u, 16'384u}) {
    const std::string hint(length, 'x');
    v1::Status message;
    message.set_code(5);
    message.mutable_detail()->set_hint(hint);
    std::string bytes;
    {
      WireWriter writer(bytes);
      writer.Varint(v1::Status::kCodeFieldNumber, 5);
      writer.Message(v1::Status::kDetailFieldNumber,
                     [&] { writer.Bytes(v1::ErrorDetail::kHintFieldNumber, hint); });
    }
    EXPECT_EQ(bytes, message.SerializeAsString()) << length;
  }
}

TEST(WireWriter, AppendsToWhatThereIs) {
  std::string bytes = "before";
  { WireWriter(bytes, 1000).Varint(1, 2); }
  EXPECT_EQ(bytes, "before\x08\x02");
}

TEST(WireReader, ReadsWhatWasWritten) {
  for (const uint64_t edge : kEdges) {
    std::string bytes;
    {
      WireWriter writer(bytes);
      writer.Varint(1, edge);
      writer.Fixed64(2, edge);
      writer.Message(2000, [&] { writer.Bytes(3, "inside"); });
    }
    WireReader reader(bytes);
    ASSERT_EQ(reader.Next(), VarintTag(1));
    EXPECT_EQ(reader.Varint(), edge);
    ASSERT_EQ(reader.Next(), Fixed64Tag(2));
    EXPECT_EQ(reader.Fixed64(), edge);
    ASSERT_EQ(reader.Next(), BytesTag(2000));
    WireReader inner(reader.Bytes());
    ASSERT_EQ(inner.Next(), BytesTag(3));
    EXPECT_EQ(inner.Bytes(), "inside");
    EXPECT_EQ(inner.Next(), 0u);
    EXPECT_EQ(reader.Next(), 0u);
    EXPECT_TRUE(reader.ok() && inner.ok());
  }
}

// Reads all, and skips all but varints.
std::vector<uint64_t> Varints(absl::string_view bytes, bool* is_ok) {
  WireReader reader(bytes);
  std::vector<uint64_t> found;
  while (const uint32_t tag = reader.Next()) {
    if ((tag & 7) == 0) {
      found.push_back(reader.Varint());
    } else {
      reader.Skip();
    }
  }
  *is_ok = reader.ok();
  return found;
}

TEST(WireReader, SkipsWhatItDoesNotKnow) {
  using namespace std::string_literals;
  bool is_ok = false;
  // A varint, 64 bits, bytes, 32 bits; a varint that is longer than it has to be.
  const std::string bytes =
      "\x08\x01\x11"s + "12345678" + "\x1a\x03" + "abc" + "\x25" + "1234" + "\x08\x82\x00"s;
  EXPECT_THAT(Varints(bytes, &is_ok), ElementsAre(1, 2));
  EXPECT_TRUE(is_ok);
  // Every cut but those between two fields.
  for (size_t size = 0; size < bytes.size(); ++size) {
    Varints(absl::string_view(bytes).substr(0, size), &is_ok);
    const bool is_between = size == 0 || size == 2 || size == 11 || size == 16 || size == 21;
    EXPECT_EQ(is_ok, is_between) << size;
  }
}

TEST(WireReader, RefusesWhatIsNoField) {
  using namespace std::string_literals;
  for (const std::string& bytes : {
           "\x00"s, "\x00\x01"s,                                 // field 0
           "\x0b\x0c"s, "\x0c"s,                                 // groups
           "\x0e\x01"s, "\x0f\x01"s,                             // types that there are not
           "\x88\x80\x80\x80\x80\x00\x01"s,                      // a tag of six bytes
           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,  // a number of eleven
           "\x0a\x80\x80\x80\x80\x80\x00"s, "\x0a\xff\xff\xff\xff\x0f"s,  // lengths
           "\x0a\x02\x01"s,                                               // behind the end
       }) {
    bool is_ok = true;
    Varints(bytes, &is_ok);
    EXPECT_FALSE(is_ok) << testing::PrintToString(bytes);
    EXPECT_FALSE(v1::Version().ParseFromString(bytes) && (bytes[0] & 7) != 3);
  }
}

TEST(WireReader, NothingIsReadAfterAnError) {
  const std::string bytes = "\x0a\x05xx\x08\x01";
  WireReader reader(bytes);
  reader.Next();
  EXPECT_EQ(reader.Bytes(), "");
  EXPECT_EQ(reader.Next(), 0u);
  EXPECT_EQ(reader.Varint(), 0u);
  EXPECT_EQ(reader.Fixed64(), 0u);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace moonpool
