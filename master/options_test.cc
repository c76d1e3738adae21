#include "master/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "master/core/namespace_table.h"

namespace moonpool::master {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() { Describe(options_, table_); }
  absl::Status Parse(std::vector<std::string> args) { return table_.Parse(args).status(); }

  MasterOptions options_;
  ConfigTable table_{{.program = "moonpool-master", .summary = "s", .version = "v"}};
};

TEST_F(OptionsTest, AsManyNamespacesAsAreAllowedFit) {
  EXPECT_FALSE(Parse({"--limit-namespaces=65536"}).ok());
  ASSERT_THAT(Parse({"--limit-namespaces=65535"}), IsOk());
  NamespaceTable table(options_.core.max_namespaces);
  while (table.size() < 65535) {
    ASSERT_THAT(table.Open(absl::StrCat("n", table.size()), "f"), IsOk()) << table.size();
  }
}

// What a hint tells to raise can be raised.
TEST_F(OptionsTest, TheHintOfAFullTableNamesAFlag) {
  ASSERT_THAT(Parse({"--limit-namespaces=1"}), IsOk());
  NamespaceTable table(options_.core.max_namespaces);
  const absl::Status full = table.Open("another", "f").status();
  EXPECT_THAT(full, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_THAT(DetailOf(full)->hint, HasSubstr("--limit-namespaces"));
}

TEST_F(OptionsTest, SessionsOutlastALateHeartbeat) {
  EXPECT_THAT(Validate(options_), IsOk());
  ASSERT_THAT(Parse({"--node-heartbeat=2s", "--node-session-timeout=3s"}), IsOk());
  EXPECT_THAT(Validate(options_),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

}  // namespace
}  // namespace moonpool::master
