#include "bench/replay/content.h"

#include <algorithm>
#include <cstring>

#include "common/checksum.h"

namespace moonpool::replay {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;  // odd: no two words of a block are equal
constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kChunkWords = 512;

// Additions, shifts and an exclusive or: compilers turn a loop of it into vector code that is
// faster than memory.
inline uint64_t Word(uint64_t seed, uint64_t index) {
  const uint64_t weyl = seed + index * kStep;
  return weyl ^ (weyl >> 31);
}

uint64_t WrongBytesOf(uint64_t seed, uint64_t first_word, absl::Span<const std::byte> bytes) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t word = Word(seed, first_word + i / kWordBytes);
    std::byte expected[kWordBytes];
    std::memcpy(expected, &word, kWordBytes);
    wrong += expected[i % kWordBytes] != bytes[i] ? 1 : 0;
  }
  return wrong;
}

}  // namespace

void FillContent(absl::string_view key, absl::Span<std::byte> into) {
  const uint64_t seed = Checksum(key);
  const size_t words = into.size() / kWordBytes;
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = Word(seed, i);
    std::memcpy(into.data() + i * kWordBytes, &word, kWordBytes);
  }
  const uint64_t last = Word(seed, words);
  const size_t rest = into.size() % kWordBytes;
  if (rest > 0) std::memcpy(into.data() + words * kWordBytes, &last, rest);
}

uint64_t CountWrongBytes(absl::string_view key, absl::Span<const std::byte> bytes) {
  const uint64_t seed = Checksum(key);
  const size_t words = bytes.size() / kWordBytes;
  uint64_t wrong = 0;
  for (size_t first = 0; first < words; first += kChunkWords) {
    const size_t count = std::min(kChunkWords, words - first);
    const std::byte* const chunk = bytes.data() + first * kWordBytes;
    uint64_t difference = 0;
    for (size_t i = 0; i < count; ++i) {
      uint64_t word;
      std::memcpy(&word, chunk + i * kWordBytes, kWordBytes);
      difference |= word ^ Word(seed, first + i);
    }
    if (difference != 0) {
      wrong += WrongBytesOf(seed, first, absl::MakeConstSpan(chunk, count * kWordBytes));
    }
  }
  return wrong + WrongBytesOf(seed, words, bytes.subspan(words * kWordBytes));
}

}  // namespace moonpool::replay
