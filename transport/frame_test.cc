#include "transport/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "common/names.h"
#include "common/testing/status_matchers.h"
#include "common/version.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

struct FrameTest : testing::Test {
  std::array<std::byte, kFrameBytesMax> buffer{};

  ConstBytes Frame(size_t size) const { return ConstBytes(buffer).first(size); }

  ConstBytes BodyOf(const FrameHeader& header) const {
    return ConstBytes(buffer).subspan(kFrameHeaderBytes, header.body_bytes);
  }
  // Of an answer that is in the buffer.
  ConstBytes AnswerBody(size_t size) {
    const auto header = ParseAnswerHeader(Frame(size));
    EXPECT_THAT(header, IsOk());
    return header.ok() ? BodyOf(*header) : ConstBytes();
  }

  absl::StatusOr<RequestBody> ParseRequest(size_t size) {
    ASSIGN_OR_RETURN(const FrameHeader header, ParseRequestHeader(Frame(size)));
    EXPECT_EQ(header.frame_bytes(), size);
    EXPECT_EQ(size % kFrameAlignment, 0u);
    return ParseRequestBody(header, BodyOf(header));
  }
};

constexpr Extent kExtent{SegmentId{3}, 1 << 20, 4096 + kPartHeaderBytes};
const Generation kGeneration = Generation::Of(Term{2}, 77);

SealRecord LongestRecord() {
  SealRecord record;
  record.generation = kGeneration;
  record.name_space = JoinPartNamespace({"n", std::string(kMaxNamespaceBytes - 2, 'f')});
  record.key = std::string(kMaxKeyBytes, 'k');
  record.parent = std::string(kMaxKeyBytes, 'p');
  record.extent = kExtent;
  record.object_bytes = 9000;
  record.part_index = 1;
  record.part_count = 3;
  record.replica_index = 2;
  record.replicas = 3;
  record.payload_checksum = 0xfeedface;
  return record;
}

auto IsBadRequest() { return Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadFrame); }
auto IsBadAnswer() { return Fails(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame); }

TEST_F(FrameTest, HelloRoundTrips) {
  const HelloRequest hello{.wire_major = kWireMajor,
                           .wire_minor = 5,
                           .incarnation = Incarnation{42},
                           .client_id = 43,
                           .wants = kHelloMapping};
  ASSERT_OK_AND_ASSIGN(const RequestBody body, ParseRequest(EncodeHello(hello, 1, buffer.data())));
  const auto& parsed = std::get<HelloRequest>(body);
  EXPECT_EQ(parsed.wire_minor, 5);
  EXPECT_EQ(parsed.incarnation, Incarnation{42});
  EXPECT_EQ(parsed.client_id, 43u);
  EXPECT_EQ(parsed.wants, kHelloMapping);
}

TEST_F(FrameTest, ExtentRequestsRoundTrip) {
  for (const FrameType type : {FrameType::kRead, FrameType::kWrite, FrameType::kClaim,
                               FrameType::kRelease, FrameType::kDoubt}) {
    const size_t size =
        EncodeExtentRequest(type, kFlagQuiet, 9, {kGeneration, kExtent}, buffer.data());
    ASSERT_OK_AND_ASSIGN(const FrameHeader header, ParseRequestHeader(Frame(size)));
    EXPECT_EQ(header.type, type);
    EXPECT_EQ(header.flags, kFlagQuiet);
    EXPECT_EQ(header.request_id, 9u);
    EXPECT_EQ(header.attached_bytes, type == FrameType::kWrite ? 4096u : 0u);
    ASSERT_OK_AND_ASSIGN(const RequestBody body, ParseRequest(size));
    EXPECT_EQ(std::get<ExtentRequest>(body).generation, kGeneration);
    EXPECT_EQ(std::get<ExtentRequest>(body).extent, kExtent);
  }
}

TEST_F(FrameTest, LongestSealRoundTrips) {
  ASSERT_OK_AND_ASSIGN(const RequestBody body,
                       ParseRequest(EncodeSeal(1, LongestRecord(), buffer.data())));
  EXPECT_EQ(std::get<SealRecord>(body), LongestRecord());
}

TEST_F(FrameTest, SealThatLiesAboutItsNamesIsRefused) {
  const size_t size = EncodeSeal(1, LongestRecord(), buffer.data());
  for (const size_t at : {50, 52, 54}) {
    std::byte* length = buffer.data() + kFrameHeaderBytes + at;
    const uint16_t honest = LoadAs<uint16_t>(length);
    for (const int lie : {0, honest - 1, honest + 1, 0xffff}) {
      StoreAs<uint16_t>(length, static_cast<uint16_t>(lie));
      EXPECT_THAT(ParseRequest(size), IsBadRequest()) << at << " " << lie;
    }
    StoreAs<uint16_t>(length, honest);
  }
}

// Everything that is sealed is reported to the master by name, in a proto `string`.
TEST_F(FrameTest, SealWithANamespaceThatIsNoNameIsRefused) {
  for (const char* const name : {"\xff\xfe", "two words", "a\nb"}) {
    SealRecord record = LongestRecord();
    record.name_space = name;
    EXPECT_THAT(ParseRequest(EncodeSeal(1, record, buffer.data())),
                Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  }
}

TEST_F(FrameTest, HeadersOutOfBoundsAreRefused) {
  const size_t size =
      EncodeExtentRequest(FrameType::kWrite, 0, 9, {kGeneration, kExtent}, buffer.data());
  const auto with = [&](size_t at, uint64_t value) {
    auto copy = buffer;
    StoreAs<uint64_t>(copy.data() + at, value);
    return ParseRequestHeader(ConstBytes(copy).first(size)).status();
  };
  EXPECT_THAT(with(0, 0), IsBadRequest());                     // magic
  EXPECT_THAT(with(16, kMaxExtentBytes + 1), IsBadRequest());  // payload
  EXPECT_THAT(with(16, UINT64_MAX), IsBadRequest());
  StoreAs<uint32_t>(buffer.data() + 4, kExtentBodyBytes + 1);  // body
  EXPECT_THAT(ParseRequestHeader(Frame(size)), IsBadRequest());
  StoreAs<uint8_t>(buffer.data() + 2, 0x7f);  // type
  EXPECT_THAT(ParseRequestHeader(Frame(size)), IsBadRequest());
  StoreAs<uint8_t>(buffer.data() + 2, static_cast<uint8_t>(FrameType::kOk));  // an answer
  EXPECT_THAT(ParseRequestHeader(Frame(size)), IsBadRequest());
}

TEST_F(FrameTest, PayloadMustFitItsExtent) {
  const size_t size =
      EncodeExtentRequest(FrameType::kWrite, 0, 9, {kGeneration, kExtent}, buffer.data());
  StoreAs<uint64_t>(buffer.data() + 16, 4095);
  EXPECT_THAT(ParseRequest(size), IsBadRequest());
}

TEST_F(FrameTest, OnlyPayloadFramesMayAttach) {
  const size_t size =
      EncodeExtentRequest(FrameType::kRead, 0, 9, {kGeneration, kExtent}, buffer.data());
  StoreAs<uint64_t>(buffer.data() + 16, 1);
  EXPECT_THAT(ParseRequestHeader(Frame(size)), IsBadRequest());
  const size_t ok = EncodeOk(FrameType::kSeal, 9, buffer.data());
  StoreAs<uint64_t>(buffer.data() + 16, 1);
  EXPECT_THAT(ParseAnswerHeader(Frame(ok)), IsBadAnswer());
}

TEST_F(FrameTest, HelloOkRoundTripsWithSegments) {
  HelloAnswer answer{.wire_major = 1,
                     .wire_minor = 2,
                     .incarnation = Incarnation{5},
                     .grants = kHelloMapping | kHelloMappedWriter,
                     .pin_slots = 4096,
                     .segments = {}};
  for (uint32_t i = 0; i < kMappedSegmentsMax; ++i) {
    answer.segments.push_back({SegmentId{i}, uint64_t{i} << 30});
  }
  const size_t size = EncodeHelloOk(1, answer, buffer.data());
  ASSERT_OK_AND_ASSIGN(const FrameHeader header, ParseAnswerHeader(Frame(size)));
  ASSERT_OK_AND_ASSIGN(const HelloAnswer parsed, ParseHelloOk(BodyOf(header)));
  EXPECT_EQ(parsed.grants, answer.grants);
  EXPECT_EQ(parsed.pin_slots, 4096u);
  ASSERT_EQ(parsed.segments.size(), kMappedSegmentsMax);
  EXPECT_EQ(parsed.segments[7].bytes, uint64_t{7} << 30);
  StoreAs<uint32_t>(buffer.data() + kFrameHeaderBytes + 24, UINT32_MAX);
  EXPECT_THAT(ParseHelloOk(AnswerBody(size)), IsBadAnswer());
}

TEST_F(FrameTest, ErrorsCarryCodeReasonRetryAndACutMessage) {
  const absl::Status error =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                std::string(10'000, 'x'), {.retry_after = absl::Milliseconds(250)});
  const size_t size = EncodeError(FrameType::kWrite, 4, error, buffer.data());
  ASSERT_OK_AND_ASSIGN(const FrameHeader header, ParseAnswerHeader(Frame(size)));
  EXPECT_EQ(header.flags, static_cast<uint8_t>(FrameType::kWrite));
  const absl::Status parsed = ParseError(AnswerBody(size));
  EXPECT_THAT(parsed, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_EQ(DetailOf(parsed)->retry_after, absl::Milliseconds(250));
  EXPECT_EQ(parsed.message().size(), kErrorMessageBytesMax);
}

TEST_F(FrameTest, AnErrorWithoutAnErrorIsRefused) {
  const size_t size =
      EncodeError(FrameType::kWrite, 4, absl::UnavailableError("gone"), buffer.data());
  for (const int code : {0, 17, 0xffff}) {
    StoreAs<uint16_t>(buffer.data() + kFrameHeaderBytes, static_cast<uint16_t>(code));
    EXPECT_THAT(ParseError(AnswerBody(size)), IsBadAnswer()) << code;
  }
}

TEST(WireVersion, AnotherMajorIsRefusedAnotherMinorServed) {
  EXPECT_THAT(CheckWireVersion(kWireMajor, kWireMinor + 3), IsOk());
  EXPECT_THAT(CheckWireVersion(kWireMajor + 1, 0),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
}

}  // namespace
}  // namespace moonpool::transport
