#include "common/checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/types/span.h"
#include "common/random.h"

namespace moonpool {
namespace {

std::vector<std::byte> RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.Next());
  return bytes;
}

TEST(Checksum, EmptyInputHasThePublishedXxh3Value) {
  EXPECT_EQ(Checksum(absl::string_view()), 0x2d06800538d394c2u);
}

TEST(Checksum, StreamEqualsOneShotForEverySplit) {
  for (const size_t size : {0u, 1u, 63u, 240u, 241u, 4095u, 4096u, 4097u, 300'000u}) {
    const std::vector<std::byte> bytes = RandomBytes(size, size);
    ChecksumStream stream;
    for (size_t at = 0; at < size;) {
      const size_t step = std::min<size_t>(size - at, 1 + at % 977);
      stream.Update(absl::MakeConstSpan(bytes).subspan(at, step));
      at += step;
    }
    EXPECT_EQ(stream.Finish(), Checksum(absl::MakeConstSpan(bytes))) << size;
  }
}

TEST(Checksum, FusedCopyCopiesAndHashesAtEveryAlignment) {
  for (const size_t size : {0u, 1u, 31u, 4096u, 5000u, 262'143u, 262'144u, 1'048'583u}) {
    for (const size_t shift : {0u, 1u, 31u, 33u}) {
      const std::vector<std::byte> source = RandomBytes(size + shift, size + 7);
      std::vector<std::byte> destination(size + 2 * shift + 1, std::byte{0xee});
      const auto from = absl::MakeConstSpan(source).subspan(shift);
      ChecksumStream stream;
      stream.CopyAndUpdate(destination.data() + shift, from);
      EXPECT_TRUE(absl::MakeConstSpan(destination).subspan(shift, size) == from) << size;
      EXPECT_EQ(stream.Finish(), Checksum(from)) << size << " at " << shift;
      EXPECT_EQ(destination[shift + size], std::byte{0xee}) << "wrote past the end";
    }
  }
}

TEST(Checksum, CopyBytesCopiesExactly) {
  for (const size_t size : {0u, 17u, 262'144u, 3'000'001u}) {
    const std::vector<std::byte> source = RandomBytes(size, size);
    std::vector<std::byte> destination(size + 1, std::byte{0x55});
    CopyBytes(destination.data(), source);
    EXPECT_TRUE(absl::MakeConstSpan(destination).first(size) == absl::MakeConstSpan(source));
    EXPECT_EQ(destination[size], std::byte{0x55});
  }
}

}  // namespace
}  // namespace moonpool
