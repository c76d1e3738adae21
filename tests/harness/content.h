// Bytes that belong to a key and to no other one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/replay/content.h"

namespace moonpool::harness {

inline std::vector<std::byte> ContentOf(const std::string& key, size_t size) {
  std::vector<std::byte> bytes(size);
  replay::FillContent(key, absl::MakeSpan(bytes));
  return bytes;
}

inline bool HoldsContentOf(const std::string& key, absl::Span<const std::byte> bytes) {
  return replay::CountWrongBytes(key, bytes) == 0;
}

}  // namespace moonpool::harness
