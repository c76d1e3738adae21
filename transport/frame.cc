#include "transport/frame.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

constexpr uint16_t kFrameMagic = 0x504d;      // "MP"
constexpr uint32_t kHelloMagic = 0x5044504d;  // "MPDP"

absl::Status BadRequest(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadFrame, what);
}

absl::Status BadAnswer(absl::string_view what) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame, what,
                   {.hint = "is this the data port of a moonpool node?"});
}

absl::string_view TextAt(ConstBytes body, size_t at, size_t bytes) {
  return absl::string_view(reinterpret_cast<const char*>(body.data()) + at, bytes);
}

struct BodyBounds {
  size_t min;
  size_t max;
};

// nullopt: no such type.
std::optional<BodyBounds> BoundsOfRequest(FrameType type) {
  switch (type) {
    case FrameType::kHello: return BodyBounds{kHelloBodyBytes, kHelloBodyBytes};
    case FrameType::kRead:
    case FrameType::kWrite:
    case FrameType::kClaim:
    case FrameType::kRelease:
    case FrameType::kDoubt: return BodyBounds{kExtentBodyBytes, kExtentBodyBytes};
    case FrameType::kSeal: return BodyBounds{kSealFixedBytes, kSealBodyBytesMax};
    default: return std::nullopt;
  }
}

std::optional<BodyBounds> BoundsOfAnswer(FrameType type) {
  switch (type) {
    case FrameType::kHelloOk:
      return BodyBounds{kHelloOkFixedBytes,
                        kHelloOkFixedBytes + kMappedSegmentsMax * kHelloOkSegmentBytes};
    case FrameType::kReadOk:
    case FrameType::kOk: return BodyBounds{0, 0};
    case FrameType::kError:
      return BodyBounds{kErrorFixedBytes, kErrorFixedBytes + kErrorMessageBytesMax};
    default: return std::nullopt;
  }
}

FrameHeader LoadHeader(ConstBytes bytes) {
  return FrameHeader{.type = static_cast<FrameType>(LoadAs<uint8_t>(bytes.data() + 2)),
                     .flags = LoadAs<uint8_t>(bytes.data() + 3),
                     .body_bytes = LoadAs<uint32_t>(bytes.data() + 4),
                     .request_id = LoadAs<uint64_t>(bytes.data() + 8),
                     .attached_bytes = LoadAs<uint64_t>(bytes.data() + 16)};
}

// nullptr: the header is within the bounds.
const char* FaultOf(ConstBytes bytes, const FrameHeader& header,
                    const std::optional<BodyBounds>& bounds, FrameType may_attach) {
  if (LoadAs<uint16_t>(bytes.data()) != kFrameMagic) return "not a frame";
  if (!bounds.has_value()) return "unknown type of frame";
  if (header.body_bytes < bounds->min || header.body_bytes > bounds->max) {
    return "impossible size of a body";
  }
  if (header.attached_bytes > (header.type == may_attach ? kMaxExtentBytes : 0)) {
    return "impossible size of a payload";
  }
  return nullptr;
}

size_t StoreHeader(const FrameHeader& header, std::byte* to) {
  StoreAs<uint16_t>(to, kFrameMagic);
  StoreAs<uint8_t>(to + 2, static_cast<uint8_t>(header.type));
  StoreAs<uint8_t>(to + 3, header.flags);
  StoreAs<uint32_t>(to + 4, header.body_bytes);
  StoreAs<uint64_t>(to + 8, header.request_id);
  StoreAs<uint64_t>(to + 16, header.attached_bytes);
  const size_t used = kFrameHeaderBytes + header.body_bytes;
  return used + EncodePadding(used, to + used);
}

void StoreExtent(Generation generation, const Extent& extent, std::byte* body) {
  StoreAs<uint64_t>(body, generation.value);
  StoreAs<uint64_t>(body + 8, extent.offset);
  StoreAs<uint64_t>(body + 16, extent.length);
  StoreAs<uint32_t>(body + 24, extent.segment.value);
}

Extent LoadExtent(const std::byte* body) {
  return Extent{.segment = SegmentId{LoadAs<uint32_t>(body + 24)},
                .offset = LoadAs<uint64_t>(body + 8),
                .length = LoadAs<uint64_t>(body + 16)};
}

absl::StatusOr<RequestBody> ParseHello(ConstBytes body) {
  if (LoadAs<uint32_t>(body.data()) != kHelloMagic) return BadRequest("not a HELLO");
  return HelloRequest{.wire_major = LoadAs<uint16_t>(body.data() + 4),
                      .wire_minor = LoadAs<uint16_t>(body.data() + 6),
                      .incarnation = Incarnation{LoadAs<uint64_t>(body.data() + 8)},
                      .client_id = LoadAs<uint64_t>(body.data() + 16),
                      .wants = LoadAs<uint32_t>(body.data() + 24)};
}

absl::StatusOr<RequestBody> ParseExtentRequest(const FrameHeader& header, ConstBytes body) {
  const ExtentRequest request{.generation = Generation{LoadAs<uint64_t>(body.data())},
                              .extent = LoadExtent(body.data())};
  if (request.generation == Generation{}) return BadRequest("generation 0");
  if (!Validate(request.extent).ok()) return BadRequest("impossible extent");
  if (header.type == FrameType::kWrite && header.attached_bytes != request.extent.payload_bytes()) {
    return BadRequest("payload of another size than its extent");
  }
  return request;
}

absl::StatusOr<RequestBody> ParseSeal(ConstBytes body) {
  const std::byte* at = body.data();
  const size_t name_space_bytes = LoadAs<uint16_t>(at + 50);
  const size_t key_bytes = LoadAs<uint16_t>(at + 52);
  const size_t parent_bytes = LoadAs<uint16_t>(at + 54);
  if (kSealFixedBytes + name_space_bytes + key_bytes + parent_bytes != body.size()) {
    return BadRequest("names do not fill the SEAL");
  }
  SealRecord record;
  record.generation = Generation{LoadAs<uint64_t>(at)};
  record.extent = LoadExtent(at);
  record.part_index = LoadAs<uint16_t>(at + 28);
  record.part_count = LoadAs<uint16_t>(at + 30);
  record.object_bytes = LoadAs<uint64_t>(at + 32);
  record.payload_checksum = LoadAs<uint64_t>(at + 40);
  record.replica_index = LoadAs<uint8_t>(at + 48);
  record.replicas = LoadAs<uint8_t>(at + 49);
  record.name_space = std::string(TextAt(body, kSealFixedBytes, name_space_bytes));
  record.key = std::string(TextAt(body, kSealFixedBytes + name_space_bytes, key_bytes));
  record.parent =
      std::string(TextAt(body, kSealFixedBytes + name_space_bytes + key_bytes, parent_bytes));
  RETURN_IF_ERROR(Validate(record));
  return record;
}

}  // namespace

absl::StatusOr<FrameHeader> ParseRequestHeader(ConstBytes bytes) {
  MP_CHECK(bytes.size() >= kFrameHeaderBytes, "part of a frame header", bytes.size());
  const FrameHeader header = LoadHeader(bytes);
  const char* fault =
      FaultOf(bytes, header, BoundsOfRequest(header.type), /*may_attach=*/FrameType::kWrite);
  if (fault != nullptr) return BadRequest(fault);
  return header;
}

absl::StatusOr<RequestBody> ParseRequestBody(const FrameHeader& header, ConstBytes body) {
  MP_CHECK(body.size() == header.body_bytes, "body of another frame", body.size());
  switch (header.type) {
    case FrameType::kHello: return ParseHello(body);
    case FrameType::kSeal: return ParseSeal(body);
    default: return ParseExtentRequest(header, body);
  }
}

absl::StatusOr<FrameHeader> ParseAnswerHeader(ConstBytes bytes) {
  MP_CHECK(bytes.size() >= kFrameHeaderBytes, "part of a frame header", bytes.size());
  const FrameHeader header = LoadHeader(bytes);
  const char* fault =
      FaultOf(bytes, header, BoundsOfAnswer(header.type), /*may_attach=*/FrameType::kReadOk);
  if (fault != nullptr) return BadAnswer(fault);
  return header;
}

absl::StatusOr<HelloAnswer> ParseHelloOk(ConstBytes body) {
  if (body.size() < kHelloOkFixedBytes || LoadAs<uint32_t>(body.data()) != kHelloMagic) {
    return BadAnswer("not an answer to HELLO");
  }
  HelloAnswer answer{.wire_major = LoadAs<uint16_t>(body.data() + 4),
                     .wire_minor = LoadAs<uint16_t>(body.data() + 6),
                     .incarnation = Incarnation{LoadAs<uint64_t>(body.data() + 8)},
                     .grants = LoadAs<uint32_t>(body.data() + 16),
                     .pin_slots = LoadAs<uint32_t>(body.data() + 20),
                     .segments = {}};
  const size_t count = LoadAs<uint32_t>(body.data() + 24);
  if (count > kMappedSegmentsMax ||
      body.size() != kHelloOkFixedBytes + count * kHelloOkSegmentBytes) {
    return BadAnswer("impossible number of segments");
  }
  for (size_t i = 0; i < count; ++i) {
    const std::byte* at = body.data() + kHelloOkFixedBytes + i * kHelloOkSegmentBytes;
    answer.segments.push_back({SegmentId{LoadAs<uint32_t>(at)}, LoadAs<uint64_t>(at + 8)});
  }
  return answer;
}

absl::Status ParseError(ConstBytes body) {
  if (body.size() < kErrorFixedBytes) return BadAnswer("ERROR is cut short");
  const int code = LoadAs<uint16_t>(body.data());
  const size_t message_bytes = LoadAs<uint16_t>(body.data() + 8);
  if (code <= 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated) ||
      message_bytes != body.size() - kErrorFixedBytes) {
    return BadAnswer("ERROR without an error");
  }
  return MakeError(static_cast<absl::StatusCode>(code),
                   ReasonFromNumber(LoadAs<uint16_t>(body.data() + 2)),
                   TextAt(body, kErrorFixedBytes, message_bytes),
                   {.retry_after = absl::Milliseconds(LoadAs<uint32_t>(body.data() + 4))});
}

absl::Status CheckWireVersion(uint16_t wire_major, uint16_t wire_minor) {
  if (wire_major == kWireMajor) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion,
                   absl::StrCat("peer speaks version ", wire_major, ".", wire_minor,
                                " of the data path, this side ", kWireMajor, ".", kWireMinor),
                   {.hint = "run the same release on both sides"});
}

size_t EncodePadding(uint64_t attached_bytes, std::byte* to) {
  const size_t padding = PaddingOf(attached_bytes);
  std::memset(to, 0, padding);
  return padding;
}

size_t EncodeHello(const HelloRequest& request, uint64_t request_id, std::byte* to) {
  std::byte* body = to + kFrameHeaderBytes;
  StoreAs<uint32_t>(body, kHelloMagic);
  StoreAs<uint16_t>(body + 4, request.wire_major);
  StoreAs<uint16_t>(body + 6, request.wire_minor);
  StoreAs<uint64_t>(body + 8, request.incarnation.value);
  StoreAs<uint64_t>(body + 16, request.client_id);
  StoreAs<uint32_t>(body + 24, request.wants);
  StoreAs<uint32_t>(body + 28, 0);
  return StoreHeader({.type = FrameType::kHello,
                      .flags = 0,
                      .body_bytes = kHelloBodyBytes,
                      .request_id = request_id,
                      .attached_bytes = 0},
                     to);
}

size_t EncodeExtentRequest(FrameType type, uint8_t flags, uint64_t request_id,
                           const ExtentRequest& request, std::byte* to) {
  StoreExtent(request.generation, request.extent, to + kFrameHeaderBytes);
  StoreAs<uint32_t>(to + kFrameHeaderBytes + 28, 0);
  const uint64_t attached = type == FrameType::kWrite ? request.extent.payload_bytes() : 0;
  return StoreHeader({.type = type,
                      .flags = flags,
                      .body_bytes = kExtentBodyBytes,
                      .request_id = request_id,
                      .attached_bytes = attached},
                     to);
}

size_t EncodeSeal(uint64_t request_id, const SealRecord& record, std::byte* to) {
  std::byte* body = to + kFrameHeaderBytes;
  StoreExtent(record.generation, record.extent, body);
  StoreAs<uint16_t>(body + 28, record.part_index);
  StoreAs<uint16_t>(body + 30, record.part_count);
  StoreAs<uint64_t>(body + 32, record.object_bytes);
  StoreAs<uint64_t>(body + 40, record.payload_checksum);
  StoreAs<uint8_t>(body + 48, record.replica_index);
  StoreAs<uint8_t>(body + 49, record.replicas);
  StoreAs<uint16_t>(body + 50, static_cast<uint16_t>(record.name_space.size()));
  StoreAs<uint16_t>(body + 52, static_cast<uint16_t>(record.key.size()));
  StoreAs<uint16_t>(body + 54, static_cast<uint16_t>(record.parent.size()));
  std::byte* at = body + kSealFixedBytes;
  for (const std::string* text : {&record.name_space, &record.key, &record.parent}) {
    std::memcpy(at, text->data(), text->size());
    at += text->size();
  }
  return StoreHeader({.type = FrameType::kSeal,
                      .flags = 0,
                      .body_bytes = static_cast<uint32_t>(at - body),
                      .request_id = request_id,
                      .attached_bytes = 0},
                     to);
}

size_t EncodeHelloOk(uint64_t request_id, const HelloAnswer& answer, std::byte* to) {
  std::byte* body = to + kFrameHeaderBytes;
  StoreAs<uint32_t>(body, kHelloMagic);
  StoreAs<uint16_t>(body + 4, answer.wire_major);
  StoreAs<uint16_t>(body + 6, answer.wire_minor);
  StoreAs<uint64_t>(body + 8, answer.incarnation.value);
  StoreAs<uint32_t>(body + 16, answer.grants);
  StoreAs<uint32_t>(body + 20, answer.pin_slots);
  StoreAs<uint32_t>(body + 24, static_cast<uint32_t>(answer.segments.size()));
  StoreAs<uint32_t>(body + 28, 0);
  std::byte* at = body + kHelloOkFixedBytes;
  for (const MappedSegment& segment : answer.segments) {
    StoreAs<uint32_t>(at, segment.id.value);
    StoreAs<uint32_t>(at + 4, 0);
    StoreAs<uint64_t>(at + 8, segment.bytes);
    at += kHelloOkSegmentBytes;
  }
  return StoreHeader({.type = FrameType::kHelloOk,
                      .flags = static_cast<uint8_t>(FrameType::kHello),
                      .body_bytes = static_cast<uint32_t>(at - body),
                      .request_id = request_id,
                      .attached_bytes = 0},
                     to);
}

size_t EncodeReadOk(uint64_t request_id, uint64_t attached_bytes, std::byte* to) {
  return StoreHeader({.type = FrameType::kReadOk,
                      .flags = static_cast<uint8_t>(FrameType::kRead),
                      .body_bytes = 0,
                      .request_id = request_id,
                      .attached_bytes = attached_bytes},
                     to);
}

size_t EncodeOk(FrameType request, uint64_t request_id, std::byte* to) {
  return StoreHeader({.type = FrameType::kOk,
                      .flags = static_cast<uint8_t>(request),
                      .body_bytes = 0,
                      .request_id = request_id,
                      .attached_bytes = 0},
                     to);
}

size_t EncodeError(FrameType request, uint64_t request_id, const absl::Status& error,
                   std::byte* to) {
  const ErrorDetail detail = DetailOf(error).value_or(ErrorDetail{});
  const absl::string_view message = error.message().substr(0, kErrorMessageBytesMax);
  const int64_t retry_ms =
      std::clamp<int64_t>(absl::ToInt64Milliseconds(detail.retry_after), 0, UINT32_MAX);
  std::byte* body = to + kFrameHeaderBytes;
  StoreAs<uint16_t>(body, static_cast<uint16_t>(error.raw_code()));
  StoreAs<uint16_t>(body + 2, static_cast<uint16_t>(detail.reason));
  StoreAs<uint32_t>(body + 4, static_cast<uint32_t>(retry_ms));
  StoreAs<uint16_t>(body + 8, static_cast<uint16_t>(message.size()));
  StoreAs<uint16_t>(body + 10, 0);
  std::memcpy(body + kErrorFixedBytes, message.data(), message.size());
  return StoreHeader({.type = FrameType::kError,
                      .flags = static_cast<uint8_t>(request),
                      .body_bytes = static_cast<uint32_t>(kErrorFixedBytes + message.size()),
                      .request_id = request_id,
                      .attached_bytes = 0},
                     to);
}

}  // namespace moonpool::transport
