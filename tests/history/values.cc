#include "tests/history/values.h"

#include <algorithm>
#include <cstring>

#include "common/checksum.h"
#include "common/random.h"

namespace moonpool::history {

std::vector<std::byte> ValueOf(const std::string& key, uint64_t attempt, size_t size) {
  std::vector<std::byte> bytes(size);
  Random stream(Checksum(key) ^ (attempt * 0x9e3779b97f4a7c15u) ^ size);
  size_t at = 0;
  if (size >= sizeof(attempt)) {
    std::memcpy(bytes.data(), &attempt, sizeof(attempt));
    at = sizeof(attempt);
  }
  for (; at < size; at += 8) {
    const uint64_t word = stream.Next();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

uint64_t AttemptOf(const std::string& key, absl::Span<const std::byte> bytes) {
  if (bytes.empty()) return kEmptyValue;
  uint64_t attempt = 0;
  if (bytes.size() < sizeof(attempt)) return 0;
  std::memcpy(&attempt, bytes.data(), sizeof(attempt));
  const std::vector<std::byte> expected = ValueOf(key, attempt, bytes.size());
  return std::memcmp(expected.data(), bytes.data(), bytes.size()) == 0 ? attempt : 0;
}

}  // namespace moonpool::history
