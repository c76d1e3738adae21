// The data-path wire: what travels over a stream (TCP, or the Unix socket of shm).
//
// A connection carries requests one way and answers the other, pipelined. The server takes the
// requests one after the other and answers them in that order. The first request is HELLO.
//
// Every frame, little-endian:
//    0  u16  magic "MP"
//    2  u8   type
//    3  u8   flags: of a request its kFlag bits, of an answer the type of the request it answers
//    4  u32  bytes of the body that follows these 24 (its layout depends on the type)
//    8  u64  request id; 0 in an ERROR that is about the connection, which is closed after it
//   16  u64  attached bytes: a payload that follows the body
//
// Zeros pad the body, and again the attached bytes, to the next multiple of 64 in the stream. So
// payloads begin where a cache line begins, on both sides of the kernel's copies: on x86 a copy to
// an address that is 1 to 15 bytes ahead of its source (modulo a page) takes three times as long.
//
// Bodies:
//   HELLO    0 u32 magic "MPDP", 4 u16 wire major, 6 u16 wire minor, 8 u64 expected incarnation,
//            16 u64 client id, 24 u32 kHello bits, 28 u32 reserved
//   READ, WRITE, CLAIM, RELEASE, DOUBT
//            0 u64 generation, 8 u64 offset, 16 u64 length of the extent, 24 u32 segment,
//            28 u32 reserved. WRITE: attached is the payload, without the part header.
//   SEAL     0 u64 generation, 8 u64 offset, 16 u64 length, 24 u32 segment, 28 u16 part index,
//            30 u16 part count, 32 u64 object bytes, 40 u64 payload checksum, 48 u8 replica index,
//            49 u8 reserved, 50 u16 bytes of the namespace, 52 u16 of the key, 54 u16 of the
//            parent, 56 the three of them
//   HELLO_OK 0 u32 magic, 4 u16 wire major, 6 u16 minor, 8 u64 incarnation, 16 u32 kHello bits
//            granted, 20 u32 pin slots, 24 u32 number of segments, 28 u32 reserved, 32 per segment
//            u32 id, u32 reserved, u64 bytes. The descriptors that travel with it: shm/handshake.h.
//   READ_OK  empty; attached is the part header and the payload
//   OK       empty
//   ERROR    0 u16 absl code, 2 u16 reason, 4 u32 retry after (ms), 8 u16 bytes of the message,
//            10 u16 reserved, 12 the message
//
// A WRITE with kFlagQuiet is answered only when it fails; its SEAL, sent right behind, is answered
// always. A READ with kFlagConfirm is answered READ_OK and, behind the padding of its payload, OK,
// or an ERROR (NOT_FOUND/STALE_GENERATION) when the bytes got another owner before the last of them
// was sent: what a checksum would find. A server of a minor below kConfirmMinor does not know that
// flag, and a client does not send it there. A DOUBT says that a reader found the part damaged; it
// is never answered, and is sent to no server of a minor below kDoubtMinor. HELLO and ERROR keep
// their layout over major versions, so that a refusal can be read. The parsers trust no byte: what
// they return is within the limits of common/types.h and ops.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/types.h"
#include "transport/ops.h"

namespace moonpool::transport {

enum class FrameType : uint8_t {
  kHello = 0x01,
  kRead = 0x02,
  kWrite = 0x03,
  kClaim = 0x04,
  kSeal = 0x05,
  kRelease = 0x06,
  kDoubt = 0x07,
  kHelloOk = 0x81,
  kReadOk = 0x82,
  kOk = 0x83,
  kError = 0x84,
};

inline constexpr uint8_t kFlagQuiet = 1;    // of a WRITE
inline constexpr uint8_t kFlagConfirm = 2;  // of a READ
inline constexpr uint16_t kConfirmMinor = 1;
inline constexpr uint16_t kDoubtMinor = 3;

// The client wants / the server grants:
inline constexpr uint32_t kHelloMapping = 1;       // the segments' memory and a page of pins
inline constexpr uint32_t kHelloMappedWriter = 2;  // writable memory, and CLAIM

inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr size_t kFrameAlignment = 64;
constexpr uint64_t Padded(uint64_t bytes) {
  return (bytes + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
}
constexpr size_t PaddingOf(uint64_t bytes) { return static_cast<size_t>(Padded(bytes) - bytes); }
inline constexpr size_t kHelloBodyBytes = 32;
inline constexpr size_t kExtentBodyBytes = 32;
inline constexpr size_t kSealFixedBytes = 56;
inline constexpr size_t kSealBodyBytesMax = kSealFixedBytes + kMaxNamespaceBytes + 2 * kMaxKeyBytes;
inline constexpr size_t kMappedSegmentsMax = 64;
inline constexpr size_t kHelloOkFixedBytes = 32;
inline constexpr size_t kHelloOkSegmentBytes = 16;
inline constexpr size_t kErrorFixedBytes = 12;
inline constexpr size_t kErrorMessageBytesMax = 512;
// No frame is longer, attached bytes aside: room for one is room for any.
inline constexpr size_t kFrameBytesMax = 4096;
static_assert(Padded(kFrameHeaderBytes + kSealBodyBytesMax) <= kFrameBytesMax);
static_assert(kFrameBytesMax % kFrameAlignment == 0);
static_assert(kPartHeaderBytes % kFrameAlignment == 0);
static_assert(kHelloOkFixedBytes + kMappedSegmentsMax * kHelloOkSegmentBytes + kFrameHeaderBytes <=
              kFrameBytesMax);

struct FrameHeader {
  FrameType type = FrameType::kError;
  uint8_t flags = 0;
  uint32_t body_bytes = 0;
  uint64_t request_id = 0;
  uint64_t attached_bytes = 0;

  // What the frame takes in the stream, attached bytes and their padding aside.
  size_t frame_bytes() const { return static_cast<size_t>(Padded(kFrameHeaderBytes + body_bytes)); }
};

struct HelloRequest {
  uint16_t wire_major = 0;
  uint16_t wire_minor = 0;
  Incarnation incarnation;
  uint64_t client_id = 0;
  uint32_t wants = 0;
};

struct ExtentRequest {
  Generation generation;
  Extent extent;
};

struct MappedSegment {
  SegmentId id;
  uint64_t bytes = 0;
};

struct HelloAnswer {
  uint16_t wire_major = 0;
  uint16_t wire_minor = 0;
  Incarnation incarnation;
  uint32_t grants = 0;
  uint32_t pin_slots = 0;
  std::vector<MappedSegment> segments;
};

using RequestBody = std::variant<HelloRequest, ExtentRequest, SealRecord>;

// What the server does with the bytes of a request. `bytes` has kFrameHeaderBytes or more; errors
// are INVALID_ARGUMENT/BAD_FRAME.
absl::StatusOr<FrameHeader> ParseRequestHeader(ConstBytes bytes);
absl::StatusOr<RequestBody> ParseRequestBody(const FrameHeader& header, ConstBytes body);

// What the client does with the bytes of an answer. Errors are UNAVAILABLE/BAD_FRAME: the peer
// cannot be talked to.
absl::StatusOr<FrameHeader> ParseAnswerHeader(ConstBytes bytes);
absl::StatusOr<HelloAnswer> ParseHelloOk(ConstBytes body);
// The error that the ERROR frame carries; UNAVAILABLE/BAD_FRAME when it is none.
absl::Status ParseError(ConstBytes body);

// Whether the version of a peer is spoken here. FAILED_PRECONDITION/PEER_VERSION if not.
absl::Status CheckWireVersion(uint16_t wire_major, uint16_t wire_minor);

// Each writes a whole frame (without attached bytes) to `to`, which has room for kFrameBytesMax,
// and returns its size with the padding.
size_t EncodePadding(uint64_t attached_bytes, std::byte* to);
size_t EncodeHello(const HelloRequest& request, uint64_t request_id, std::byte* to);
size_t EncodeExtentRequest(FrameType type, uint8_t flags, uint64_t request_id,
                           const ExtentRequest& request, std::byte* to);
// The record is valid (ops.h).
size_t EncodeSeal(uint64_t request_id, const SealRecord& record, std::byte* to);
// At most kMappedSegmentsMax segments.
size_t EncodeHelloOk(uint64_t request_id, const HelloAnswer& answer, std::byte* to);
size_t EncodeReadOk(uint64_t request_id, uint64_t attached_bytes, std::byte* to);
size_t EncodeOk(FrameType request, uint64_t request_id, std::byte* to);
size_t EncodeError(FrameType request, uint64_t request_id, const absl::Status& error,
                   std::byte* to);

}  // namespace moonpool::transport
