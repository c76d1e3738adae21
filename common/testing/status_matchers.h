// gtest matchers for absl::Status and StatusOr.
//
//   EXPECT_THAT(client.Put(key, value), IsOk());
//   EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
//   EXPECT_THAT(result, Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
//   ASSERT_OK_AND_ASSIGN(auto value, Make());
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool {

inline const absl::Status& AsStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& AsStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << Describe(AsStatus(arg));
  return AsStatus(arg).ok();
}

MATCHER_P(StatusIs, code, "") {
  *result_listener << Describe(AsStatus(arg));
  return AsStatus(arg).code() == code;
}

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << Describe(AsStatus(arg));
  return AsStatus(arg).code() == code && ReasonOf(AsStatus(arg)) == reason;
}

}  // namespace moonpool

#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  MOONPOOL_ASSERT_OK_AND_ASSIGN(MOONPOOL_CONCAT(statusor_, __LINE__), lhs, expr)
#define MOONPOOL_ASSERT_OK_AND_ASSIGN(statusor, lhs, expr)               \
  auto statusor = (expr);                                                \
  ASSERT_TRUE(statusor.ok()) << ::moonpool::Describe(statusor.status()); \
  lhs = *std::move(statusor)
