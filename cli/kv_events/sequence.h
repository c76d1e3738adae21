// A batch's number, as it stands in its frame: 8 bytes, big-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace moonpool::cli {

inline constexpr size_t kSequenceBytes = 8;

inline std::string SequenceFrame(uint64_t number) {
  std::string bytes(kSequenceBytes, '\0');
  for (size_t i = 0; i < kSequenceBytes; ++i) {
    bytes[i] = static_cast<char>(number >> (8 * (kSequenceBytes - 1 - i)));
  }
  return bytes;
}

// Of kSequenceBytes bytes.
inline uint64_t SequenceOf(absl::string_view frame) {
  uint64_t number = 0;
  for (const char byte : frame) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

}  // namespace moonpool::cli
