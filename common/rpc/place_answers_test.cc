#include "common/rpc/place_answers.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <string>

#include "common/random.h"
#include "common/rpc/testing/check_answer.h"
#include "common/wire/wire_writer.h"

namespace moonpool {
namespace {

// Any message of a kind: few of each list, and numbers of all lengths, often none.
class AnyMessage {
 public:
  explicit AnyMessage(uint64_t seed) : random_(seed) {}

  void Fill(google::protobuf::Message& message) {
    const google::protobuf::Descriptor& kind = *message.GetDescriptor();
    for (int i = 0; i < kind.field_count(); ++i) {
      const google::protobuf::FieldDescriptor& field = *kind.field(i);
      const uint64_t count = random_.Below(field.is_repeated() ? 4 : 2);
      for (uint64_t j = 0; j < count; ++j) Fill(message, field);
    }
  }
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  uint64_t Number() { return random_.Next() >> random_.Below(64); }

 private:
  void Fill(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
    using Field = google::protobuf::FieldDescriptor;
    const google::protobuf::Reflection& to = *message.GetReflection();
    if (field.cpp_type() == Field::CPPTYPE_MESSAGE) {
      return Fill(field.is_repeated() ? *to.AddMessage(&message, &field)
                                      : *to.MutableMessage(&message, &field));
    }
    ASSERT_FALSE(field.is_repeated()) << field.full_name();
    switch (field.cpp_type()) {
      case Field::CPPTYPE_UINT32:
        return to.SetUInt32(&message, &field, static_cast<uint32_t>(Number()));
      case Field::CPPTYPE_INT32:
        return to.SetInt32(&message, &field, static_cast<int32_t>(Number()));
      case Field::CPPTYPE_UINT64: return to.SetUInt64(&message, &field, Number());
      case Field::CPPTYPE_ENUM:
        return to.SetEnumValue(&message, &field, static_cast<int>(random_.Below(100)));
      case Field::CPPTYPE_STRING:
        return to.SetString(&message, &field, std::string(random_.Below(200), 'x'));
      default: FAIL() << field.full_name();
    }
  }

  Random random_;
};

template <typename Pair>
class PlaceAnswers : public ::testing::Test {
 protected:
  using Answer = typename Pair::Answer;
  using Message = typename Pair::Message;

  static std::string AnyBytes(AnyMessage& any) {
    Message message;
    any.Fill(message);
    return message.SerializeAsString();
  }
  static bool Read(const std::string& bytes) { return CheckRead<Answer, Message>(bytes); }

  // What protobuf has to say of broken messages is no news here.
  const google::protobuf::LogSilencer silencer_;
};

template <typename AnswerType, typename MessageType>
struct Pair {
  using Answer = AnswerType;
  using Message = MessageType;
};
using Pairs = ::testing::Types<
    Pair<LocateAnswer, v1::LocateResponse>, Pair<MatchPrefixAnswer, v1::MatchPrefixResponse>,
    Pair<StartPutsAnswer, v1::StartPutsResponse>, Pair<CommitPutsAnswer, v1::CommitPutsResponse>>;
TYPED_TEST_SUITE(PlaceAnswers, Pairs);

TYPED_TEST(PlaceAnswers, AreReadAsProtobufReadsThem) {
  AnyMessage any(1);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(this->Read(this->AnyBytes(any)));
}

// Two messages in a row are one: lists go on, and of what there is one of the last word counts.
TYPED_TEST(PlaceAnswers, AreMerged) {
  AnyMessage any(2);
  for (int i = 0; i < 300; ++i) {
    const std::string bytes = this->AnyBytes(any) + this->AnyBytes(any);
    EXPECT_TRUE(this->Read(bytes));
    // And so it is inside: of results, and of what stands in their places.
    for (const int field : {1, 2, 3, 4}) {
      std::string outer;
      { WireWriter(outer).EncodedMessage(field, bytes); }
      this->Read(outer);
    }
  }
}

TYPED_TEST(PlaceAnswers, OfBrokenBytesAreReadAsProtobufReadsThem) {
  AnyMessage any(3);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = this->AnyBytes(any);
    for (uint64_t changes = any.Below(4); changes > 0 && !bytes.empty(); --changes) {
      const size_t at = any.Below(bytes.size());
      switch (any.Below(4)) {
        case 0: bytes.resize(at); break;
        case 1: bytes.insert(at, 1, static_cast<char>(any.Number())); break;
        case 2: bytes.erase(at, 1); break;
        default: bytes[at] = static_cast<char>(any.Number());
      }
    }
    if (!this->Read(bytes)) ++refused;
  }
  EXPECT_GT(refused, 300);
}

TEST(LocateAnswerTest, HasNoMoreResultsThanACallHasKeys) {
  v1::LocateResponse message;
  for (size_t i = 0; i < kMaxBatchKeys; ++i) message.add_results();
  EXPECT_TRUE((CheckRead<LocateAnswer, v1::LocateResponse>(message.SerializeAsString())));
  message.add_results();
  EXPECT_FALSE((CheckRead<LocateAnswer, v1::LocateResponse>(message.SerializeAsString())));
}

}  // namespace
}  // namespace moonpool
