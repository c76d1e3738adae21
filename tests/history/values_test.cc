#include "tests/history/values.h"

#include <gtest/gtest.h>

namespace moonpool::history {
namespace {

TEST(Values, SayWhosePutTheyAre) {
  for (const size_t size : {8, 9, 64, 1000}) {
    EXPECT_EQ(AttemptOf("key", ValueOf("key", 17, size)), 17u) << size;
  }
  EXPECT_EQ(AttemptOf("key", {}), kEmptyValue);
}

TEST(Values, OfAnotherKeyOrTornOrShortAreNobodys) {
  const std::vector<std::byte> value = ValueOf("key", 17, 64);
  EXPECT_EQ(AttemptOf("other", value), 0u);
  EXPECT_EQ(AttemptOf("key", absl::MakeSpan(value).subspan(0, 63)), 0u);
  EXPECT_EQ(AttemptOf("key", absl::MakeSpan(value).subspan(0, 7)), 0u);
  std::vector<std::byte> torn = value;
  const std::vector<std::byte> later = ValueOf("key", 18, 64);
  std::copy(later.begin() + 32, later.end(), torn.begin() + 32);
  EXPECT_EQ(AttemptOf("key", torn), 0u);
}

}  // namespace
}  // namespace moonpool::history
