#include "master/service/segments_page.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace moonpool::master {
namespace {

TEST(SegmentsPage, HasANodePerLineAndNothingWhereThereIsNone) {
  const HttpResponse page = SegmentsPage(std::vector<std::string>{"alpha", "beta"});
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "alpha\nbeta\n");
  EXPECT_EQ(SegmentsPage(std::vector<std::string>{}).body, "");
}

TEST(SegmentsPage, OfAMasterThatDoesNotLeadIsEmpty) {
  const HttpResponse page = SegmentsPage(absl::UnavailableError("another leads"));
  EXPECT_EQ(page.status, 503);
  EXPECT_EQ(page.body, "");
}

}  // namespace
}  // namespace moonpool::master
