#include "transport/part_header.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "common/testing/status_matchers.h"

namespace moonpool::transport {
namespace {

using Bytes = std::array<std::byte, kPartHeaderBytes>;

PartHeader Sample() {
  return {.generation = Generation::Of(Term{3}, 9),
          .payload_bytes = 4096,
          .payload_checksum = 0x1122334455667788,
          .object_bytes = 8192,
          .key_fingerprint = KeyFingerprint("tenant", "key"),
          .part_index = 1,
          .part_count = 2};
}

constexpr Extent kExtent{.segment = SegmentId{0}, .offset = 0, .length = 4096 + kPartHeaderBytes};

struct PartHeaderTest : testing::Test {
  PartHeaderTest() { EncodePartHeader(Sample(), bytes.data()); }
  alignas(8) Bytes bytes;
};

TEST_F(PartHeaderTest, RoundTrips) {
  ASSERT_OK_AND_ASSIGN(const PartHeader header, DecodePartHeader(bytes));
  EXPECT_EQ(header, Sample());
  EXPECT_THAT(CheckPartHeader(Sample().generation, kExtent, bytes), IsOk());
}

TEST_F(PartHeaderTest, EveryFlippedBitIsFound) {
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    alignas(8) Bytes damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THAT(DecodePartHeader(damaged),
                Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch))
        << bit;
  }
}

TEST_F(PartHeaderTest, ShortInputIsDamage) {
  EXPECT_THAT(DecodePartHeader(absl::MakeConstSpan(bytes).first(63)),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PartHeaderTest, InvalidatedHeaderHasNoOwnerUntilItIsRestored) {
  InvalidatePartHeader(bytes.data());
  EXPECT_EQ(LoadPartGeneration(bytes.data()), Generation{});
  EXPECT_THAT(DecodePartHeader(bytes), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(CheckPartHeader(Sample().generation, kExtent, bytes),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  RestorePartHeader(Sample().generation, bytes.data());
  EXPECT_THAT(CheckPartHeader(Sample().generation, kExtent, bytes), IsOk());
}

TEST_F(PartHeaderTest, AnotherGenerationIsStaleAndAnotherSizeIsDamage) {
  EXPECT_THAT(CheckPartHeader(Generation::Of(Term{3}, 8), kExtent, bytes),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  Extent shorter = kExtent;
  --shorter.length;
  EXPECT_THAT(CheckPartHeader(Sample().generation, shorter, bytes),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PartHeaderTest, PayloadChecksumDecides) {
  EXPECT_THAT(CheckPayload(Sample(), Sample().payload_checksum), IsOk());
  EXPECT_THAT(CheckPayload(Sample(), Sample().payload_checksum + 1),
              Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
}

TEST(KeyFingerprint, TellsNamespaceFromKeyAndTakesAnyLength) {
  EXPECT_NE(KeyFingerprint("a", "bc"), KeyFingerprint("ab", "c"));
  EXPECT_EQ(KeyFingerprint("a", "b"), KeyFingerprint("a", "b"));
  const std::string huge(100'000, 'k');
  EXPECT_NE(KeyFingerprint("a", huge), KeyFingerprint("b", huge));
}

}  // namespace
}  // namespace moonpool::transport
