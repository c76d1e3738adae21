// Writes protobuf's wire format without messages; wire_reader.h says why. Byte for byte what
// protobuf writes, when fields come in the order of their numbers.
//
//   std::string bytes;
//   {
//     WireWriter writer(bytes);
//     writer.Message(v1::LocateResponse::kResultsFieldNumber, [&] {
//       writer.Fixed64(v1::Location::kGenerationFieldNumber, generation.value);
//     });
//   }  // now they are there
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "common/wire/wire_reader.h"

namespace moonpool {

// Borrows `bytes`, which mean something before and after its life, not during it. As in proto3,
// numbers that are 0 and texts that are empty are left out; messages are not.
class WireWriter {
 public:
  // Appends. `bytes_expected`: room is made once where that is about right.
  explicit WireWriter(std::string& bytes, size_t bytes_expected = 0)
      : bytes_(bytes), size_(bytes.size()) {
    Reserve(bytes_expected);
  }
  ~WireWriter() { bytes_.resize(size_); }
  WireWriter(const WireWriter&) = delete;
  WireWriter& operator=(const WireWriter&) = delete;

  void Varint(int field, uint64_t value) {
    if (value == 0) return;
    Reserve(2 * kVarintBytesMax);
    PutVarint(VarintTag(field));
    PutVarint(value);
  }
  void Fixed64(int field, uint64_t value) {
    if (value == 0) return;
    Reserve(kVarintBytesMax + sizeof(value));
    PutVarint(Fixed64Tag(field));
    Put(&value, sizeof(value));
  }
  // Left out when empty. Of a repeated field each one counts: EncodedMessage.
  void Bytes(int field, absl::string_view value) {
    if (!value.empty()) EncodedMessage(field, value);
  }
  // A message inside that was written before.
  void EncodedMessage(int field, absl::string_view value) {
    Reserve(2 * kVarintBytesMax + value.size());
    PutVarint(BytesTag(field));
    PutVarint(value.size());
    Put(value.data(), value.size());
  }
  // A message inside, whose fields `write` writes, with this writer.
  template <typename Write>
  void Message(int field, Write write) {
    Reserve(kVarintBytesMax + 1);
    PutVarint(BytesTag(field));
    const size_t start = ++size_;  // most are shorter than 128 bytes, and their length is one
    write();
    EndMessage(start);
  }

 private:
  static constexpr size_t kVarintBytesMax = 10;

  void Reserve(size_t count) {
    if (bytes_.size() - size_ < count) bytes_.resize(std::max(2 * size_, size_ + count));
  }
  // Where room has been made.
  void Put(const void* from, size_t count) {
    static_assert(std::endian::native == std::endian::little);
    if (count == 0) return;  // `from` may be nullptr then
    std::memcpy(bytes_.data() + size_, from, count);
    size_ += count;
  }
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_[size_++] = static_cast<char>(value | 0x80);
    bytes_[size_++] = static_cast<char>(value);
  }
  // The length goes before `start`, where a byte is kept for it.
  void EndMessage(size_t start) {
    const size_t length = size_ - start;
    if (length < 0x80) {
      bytes_[start - 1] = static_cast<char>(length);
      return;
    }
    const size_t more = (static_cast<size_t>(std::bit_width(length)) + 6) / 7 - 1;
    Reserve(more);
    std::memmove(bytes_.data() + start + more, bytes_.data() + start, length);
    size_ = start - 1;
    PutVarint(length);
    size_ += length;
  }

  std::string& bytes_;
  size_t size_;  // what is written; behind it there is room
};

}  // namespace moonpool
