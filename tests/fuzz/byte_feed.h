// Deals out the bytes of a fuzz input as choices and values, so that whatever the fuzzer changes
// still means something. When nothing is left every choice is the first and every number 0: a
// prefix of an input does the same as the whole, up to where it ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "absl/strings/string_view.h"

namespace moonpool {

class ByteFeed {
 public:
  ByteFeed(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), data == nullptr ? 0 : size) {}

  bool empty() const { return rest_.empty(); }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  size_t Below(size_t bound) { return Byte() % bound; }
  // Seldom: never when nothing is left.
  bool OneIn(size_t n) { return Below(n) == n - 1; }
  template <typename T, size_t n>
  const T& OneOf(const T (&choices)[n]) {
    return choices[Below(n)];
  }

  // Small mostly; also what lies at the edges of the types, and anything.
  uint64_t Number() {
    constexpr uint64_t kEdges[] = {255,
                                   256,
                                   65535,
                                   65536,
                                   std::numeric_limits<int32_t>::max(),
                                   uint64_t{1} << 31,
                                   std::numeric_limits<uint32_t>::max(),
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 50,
                                   std::numeric_limits<int64_t>::max(),
                                   uint64_t{1} << 63,
                                   std::numeric_limits<uint64_t>::max() - 63,
                                   std::numeric_limits<uint64_t>::max()};
    constexpr uint8_t kFirstEdge = 0xf0;
    constexpr size_t kEdgeCount = std::size(kEdges);
    const uint8_t byte = Byte();
    if (byte < kFirstEdge) return byte;
    if (byte < kFirstEdge + kEdgeCount) return kEdges[byte - kFirstEdge];
    uint64_t number = 0;
    for (int i = 0; i < (byte == 0xff ? 8 : 2); ++i) number = number << 8 | Byte();
    return number;
  }
  uint32_t Number32() { return static_cast<uint32_t>(Number()); }

  // A length, then as many bytes.
  absl::string_view Bytes() {
    const size_t wanted = Number() & 0xffff;
    const size_t size = std::min(wanted, rest_.size());
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

 private:
  absl::string_view rest_;
};

}  // namespace moonpool
