#include "common/error.h"

#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool {
namespace {

TEST(Error, EveryProtoReasonHasItsEnumerator) {
  const auto* descriptor = v1::ErrorReason_descriptor();
  for (int i = 0; i < descriptor->value_count(); ++i) {
    const int number = descriptor->value(i)->number();
    EXPECT_EQ(static_cast<int>(ReasonFromNumber(number)), number);
    EXPECT_EQ(ReasonName(ReasonFromNumber(number)), descriptor->value(i)->name());
  }
  EXPECT_EQ(ReasonFromNumber(12345), ErrorReason::kUnspecified);
}

TEST(Error, DetailSurvivesAnnotation) {
  const absl::Status status =
      Annotate(MakeError(absl::StatusCode::kNotFound, ErrorReason::kEvicted, "gone",
                         {.hint = "put it again",
                          .key = "k",
                          .retry_after = absl::Seconds(2),
                          .leader = "m2:7400"}),
               "get k");
  EXPECT_THAT(status, Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
  EXPECT_EQ(status.message(), "get k: gone");
  EXPECT_EQ(DetailOf(status)->retry_after, absl::Seconds(2));
  EXPECT_EQ(DetailOf(status)->leader, "m2:7400");
  EXPECT_EQ(Describe(status), "NOT_FOUND (EVICTED): get k: gone [key k]; put it again");
}

TEST(Error, NothingIsSaidTwice) {
  const absl::Status status =
      MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists,
                "key \"a\\x01\": the key has an object", {.hint = "take it", .key = "a\x01"});
  EXPECT_EQ(Describe(status), "ALREADY_EXISTS: key \"a\\x01\": the key has an object; take it");
}

TEST(Error, OkCarriesNothing) {
  EXPECT_EQ(DetailOf(absl::OkStatus()), std::nullopt);
  EXPECT_THAT(Annotate(absl::OkStatus(), "x"), IsOk());
}

}  // namespace
}  // namespace moonpool
