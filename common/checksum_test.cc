#include "common/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "common/checksum_kernels.h"
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
    for (const auto& [shift, to] :
         {std::pair(0u, CopyTo::kMemory), std::pair(0u, CopyTo::kCache),
          std::pair(1u, CopyTo::kMemory), std::pair(16u, CopyTo::kMemory),
          std::pair(31u, CopyTo::kMemory), std::pair(33u, CopyTo::kCache)}) {
      const std::vector<std::byte> source = RandomBytes(size + shift, size + 7);
      std::vector<std::byte> destination(size + 2 * shift + 1, std::byte{0xee});
      const auto from = absl::MakeConstSpan(source).subspan(shift);
      ChecksumStream stream;
      stream.CopyAndUpdate(destination.data() + shift, from, to);
      EXPECT_TRUE(absl::MakeConstSpan(destination).subspan(shift, size) == from) << size;
      EXPECT_EQ(stream.Finish(), Checksum(from)) << size << " at " << shift;
      EXPECT_EQ(destination[shift + size], std::byte{0xee}) << "wrote past the end";
    }
  }
}

// A stream is copied in steps of any size, between updates of any size.
void ExpectFusedCopyContinuesAStreamAnywhere(const checksum_internal::Kernels& kernels) {
  const std::vector<std::byte> source = RandomBytes(3'000'000, 5);
  Random random(9);
  constexpr size_t kLargest[] = {70, 300, 600, 1500, 5000, 600'000};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> destination(source.size() + 64);
    std::byte* const to = destination.data() + random.Next() % 64;
    checksum_internal::StreamState stream;
    kernels.reset(&stream);
    size_t at = 0;
    for (int step = 0; step < 6; ++step) {
      const size_t largest = kLargest[random.Next() % std::size(kLargest)];
      const size_t size = std::min(random.Next() % largest, source.size() - at);
      if (random.Next() % 4 == 0) {
        kernels.update(&stream, source.data() + at, size);
        std::memcpy(to + at, source.data() + at, size);
      } else {
        const CopyTo copy_to = random.Next() % 2 == 0 ? CopyTo::kCache : CopyTo::kMemory;
        kernels.copy_and_update(&stream, to + at, source.data() + at, size, copy_to);
      }
      at += size;
    }
    ASSERT_EQ(std::memcmp(to, source.data(), at), 0) << round;
    ASSERT_EQ(kernels.finish(&stream), kernels.hash(source.data(), at)) << round;
  }
}

TEST(Checksum, FusedCopyContinuesAStreamAnywhere) {
  ExpectFusedCopyContinuesAStreamAnywhere(checksum_internal::kBaselineKernels);
  if (!__builtin_cpu_supports("avx2")) return;
  ExpectFusedCopyContinuesAStreamAnywhere(checksum_internal::kAvx2Kernels);
}

TEST(Checksum, CopyBytesCopiesExactly) {
  for (const size_t size : {0u, 17u, 262'144u, 3'000'001u}) {
    const std::vector<std::byte> source = RandomBytes(size, size);
    std::vector<std::byte> destination(size + 1);
    for (const CopyTo to : {CopyTo::kCache, CopyTo::kMemory}) {
      std::fill(destination.begin(), destination.end(), std::byte{0x55});
      CopyBytes(destination.data(), source, to);
      EXPECT_TRUE(absl::MakeConstSpan(destination).first(size) == absl::MakeConstSpan(source));
      EXPECT_EQ(destination[size], std::byte{0x55});
    }
  }
}

}  // namespace
}  // namespace moonpool
