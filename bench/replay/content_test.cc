#include "bench/replay/content.h"

#include <vector>

#include "gtest/gtest.h"

namespace moonpool::replay {
namespace {

std::vector<std::byte> ContentOf(absl::string_view key, size_t size) {
  std::vector<std::byte> bytes(size);
  FillContent(key, absl::MakeSpan(bytes));
  return bytes;
}

TEST(Content, RightBytesPassForEverySize) {
  for (size_t size : {0, 1, 7, 8, 9, 4095, 4096, 4097, 70001}) {
    EXPECT_EQ(CountWrongBytes("k", ContentOf("k", size)), 0u) << size;
  }
}

TEST(Content, EveryFlippedByteIsCounted) {
  for (size_t size : {1u, 9u, 5000u}) {
    for (size_t at = 0; at < size; at += 1 + size / 17) {
      std::vector<std::byte> bytes = ContentOf("k", size);
      bytes[at] ^= std::byte{1};
      EXPECT_EQ(CountWrongBytes("k", bytes), 1u) << size << " at " << at;
    }
  }
}

TEST(Content, AnotherKeyOrAnotherPlaceDoesNotPass) {
  const std::vector<std::byte> bytes = ContentOf("block-1", 1 << 16);
  EXPECT_GT(CountWrongBytes("block-2", bytes), bytes.size() / 2);
  const auto shifted = absl::MakeConstSpan(bytes).subspan(4096);
  EXPECT_GT(CountWrongBytes("block-1", shifted), shifted.size() / 2);
}

TEST(Content, AShorterBlockIsThePrefixOfALongerOne) {
  EXPECT_EQ(CountWrongBytes("k", absl::MakeConstSpan(ContentOf("k", 4096)).first(1001)), 0u);
}

}  // namespace
}  // namespace moonpool::replay
