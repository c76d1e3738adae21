#include "common/config/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "common/testing/status_matchers.h"

namespace moonpool {
namespace {

uint64_t Bytes(absl::string_view text) { return ParseBytes(text).value_or(12345); }

TEST(Units, BytesWithEveryUnit) {
  EXPECT_EQ(Bytes("0"), 0u);
  EXPECT_EQ(Bytes("4096"), 4096u);
  EXPECT_EQ(Bytes("4096B"), 4096u);
  EXPECT_EQ(Bytes("2KiB"), 2048u);
  EXPECT_EQ(Bytes("256MiB"), 256 * kMiB);
  EXPECT_EQ(Bytes("1.5 GiB"), 1536 * kMiB);
  EXPECT_EQ(Bytes("3TiB"), 3 * kTiB);
  EXPECT_EQ(Bytes("10MB"), 10'000'000u);
  EXPECT_EQ(Bytes("18446744073709551615"), std::numeric_limits<uint64_t>::max());
}

TEST(Units, BytesRefusesWhatIsUnclear) {
  for (const char* text :
       {"", "MiB", "256M", "-1", "1e9", "1..5MiB", ".", "1 ", "1  MiB", "1.0001B", "nan",
        "18446744073709551616", "16777216TiB", "99999999999.5TiB"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(Units, FormatBytesReadsBack) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, kKiB, 1536 * kMiB,
                               7 * kTiB, kGiB + 1, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_EQ(Bytes(FormatBytes(bytes)), bytes);
  }
  EXPECT_EQ(FormatBytes(1536 * kMiB), "1536MiB");
}

TEST(Units, HumanBytesRounds) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1536 * kMiB), "1.5 GiB");
  EXPECT_EQ(HumanBytes(300 * kMiB + 1), "300 MiB");
}

TEST(Units, Durations) {
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("7d"), absl::Hours(7 * 24));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  for (const char* text : {"", "5", "-1s", "inf", "2 s", "infd", "-1d", "soon", "1e300d"}) {
    EXPECT_THAT(ParseDuration(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(Units, DurationReadsBackWhatAbseilWrites) {
  EXPECT_EQ(*ParseDuration(absl::FormatDuration(absl::Minutes(90))), absl::Minutes(90));
}

}  // namespace
}  // namespace moonpool
