#include "client_sdk/c/border.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "moonpool/c.h"

namespace moonpool::c_api {
namespace {

using ::testing::HasSubstr;

TEST(Border, WhatIsThrownBecomesACode) {
  EXPECT_EQ(Enter([]() -> absl::Status { throw std::bad_alloc(); }), MOONPOOL_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(moonpool_last_error(), "out of memory");
  EXPECT_EQ(moonpool_error_reason(moonpool_last_error_detail()), MOONPOOL_REASON_LIMIT_REACHED);
  EXPECT_EQ(Enter([]() -> absl::Status { throw std::runtime_error("oops"); }), MOONPOOL_INTERNAL);
  EXPECT_THAT(moonpool_last_error(), HasSubstr("oops"));
  EXPECT_EQ(Enter([]() -> absl::Status { throw 7; }), MOONPOOL_INTERNAL);
}

TEST(Border, WhatSucceedsLeavesTheLastErrorAlone) {
  EXPECT_EQ(Enter([] { return absl::NotFoundError("gone"); }), MOONPOOL_NOT_FOUND);
  EXPECT_EQ(Enter([] { return absl::OkStatus(); }), MOONPOOL_OK);
  EXPECT_STREQ(moonpool_last_error(), "NOT_FOUND: gone");
}

}  // namespace
}  // namespace moonpool::c_api
