// Reads protobuf's wire format without messages: for answers and requests with hundreds of small
// ones inside, where making an object of each costs more than what is done with it.
//
//   WireReader reader(bytes);
//   while (const uint32_t tag = reader.Next()) {
//     switch (tag) {
//       case VarintTag(v1::Extent::kOffsetFieldNumber): offset = reader.Varint(); break;
//       case BytesTag(v1::Part::kExtentFieldNumber):
//         if (!ReadExtent(reader.Bytes(), ...)) return false;  // it has a reader of its own
//         break;
//       default: reader.Skip();
//     }
//   }
//   return reader.ok();
//
// The bytes may be anybody's. What protobuf refuses is refused here: fields that end behind their
// message, numbers without an end, field 0, types that there are not. (Not text that is no UTF-8:
// what is read with this is `bytes`.) So are groups, which protobuf would skip: no message of ours,
// of any version, has one. A known field of another type counts as an unknown one, as with
// protobuf.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace moonpool {

// What stands before a field: its number, and how its value is written.
enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint32_t WireTag(int field, WireType type) {
  return static_cast<uint32_t>(field) << 3 | static_cast<uint32_t>(type);
}
constexpr uint32_t VarintTag(int field) { return WireTag(field, WireType::kVarint); }
constexpr uint32_t Fixed64Tag(int field) { return WireTag(field, WireType::kFixed64); }
constexpr uint32_t BytesTag(int field) { return WireTag(field, WireType::kBytes); }

// Borrows the bytes, and so do the views that it gives.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // The tag of the next field, whose value is to be read or skipped before the one after it. 0:
  // there is none, or what comes is no field.
  uint32_t Next();

  // The value, of the type that the tag says. 0 or nothing, once the bytes are found to be wrong.
  uint64_t Varint() { return ReadVarint(kVarintBytesMax); }
  uint64_t Fixed64();
  absl::string_view Bytes();
  void Skip();

  // Whether all that was read so far was right.
  bool ok() const { return ok_; }

 private:
  static constexpr size_t kVarintBytesMax = 10;
  static constexpr size_t kVarint32BytesMax = 5;

  uint64_t ReadVarint(size_t bytes_max);
  size_t left() const { return static_cast<size_t>(end_ - next_); }
  absl::string_view Take(size_t count);
  void Fail() {
    ok_ = false;
    next_ = end_;
  }

  const char* next_;
  const char* end_;
  uint32_t tag_ = 0;
  bool ok_ = true;
};

inline uint64_t WireReader::ReadVarint(size_t bytes_max) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes_max && next_ != end_; ++i) {
    const auto byte = static_cast<uint8_t>(*next_++);
    // What does not fit is cut off, as by protobuf.
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) return value;
  }
  Fail();
  return 0;
}

inline absl::string_view WireReader::Take(size_t count) {
  if (count > left()) {
    Fail();
    return {};
  }
  const absl::string_view taken(next_, count);
  next_ += count;
  return taken;
}

inline uint32_t WireReader::Next() {
  if (next_ == end_) return 0;
  tag_ = static_cast<uint32_t>(ReadVarint(kVarint32BytesMax));
  if (tag_ >> 3 == 0) {
    Fail();
    return 0;
  }
  return tag_;
}

inline uint64_t WireReader::Fixed64() {
  static_assert(std::endian::native == std::endian::little);
  uint64_t value = 0;
  const absl::string_view bytes = Take(sizeof(value));
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

inline absl::string_view WireReader::Bytes() {
  // A length of five bytes that is no number below 2^31 is longer than any message, too.
  return Take(ReadVarint(kVarint32BytesMax));
}

inline void WireReader::Skip() {
  switch (static_cast<WireType>(tag_ & 7)) {
    case WireType::kVarint: Varint(); return;
    case WireType::kFixed64: Take(sizeof(uint64_t)); return;
    case WireType::kBytes: Bytes(); return;
    case WireType::kFixed32: Take(sizeof(uint32_t)); return;
  }
  Fail();
}

}  // namespace moonpool
