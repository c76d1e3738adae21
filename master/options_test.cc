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

TEST_F(OptionsTest, AMasterThatIsElectedSaysWhereOthersCallIt) {
  const auto is_refused = Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  EXPECT_FALSE(options_.is_elected());
  ASSERT_THAT(Parse({"--etcd-endpoints=10.0.0.7:2379,10.0.0.8:2379"}), IsOk());
  EXPECT_TRUE(options_.is_elected());
  EXPECT_THAT(Validate(options_), IsOk());
  ASSERT_THAT(Parse({"--listen=0.0.0.0:7400"}), IsOk());
  EXPECT_THAT(Validate(options_), is_refused);
  EXPECT_THAT(DetailOf(Validate(options_))->hint, HasSubstr("--advertise"));
  ASSERT_THAT(Parse({"--advertise=0.0.0.0:7400"}), IsOk());
  EXPECT_THAT(Validate(options_), is_refused);
  ASSERT_THAT(Parse({"--advertise=10.0.0.1:7400"}), IsOk());
  EXPECT_THAT(Validate(options_), IsOk());
  ASSERT_THAT(Parse({"--listen=127.0.0.1:0"}), IsOk());
  EXPECT_THAT(Validate(options_), IsOk());
}

TEST_F(OptionsTest, WhatIsInEtcdIsNotOnDisk) {
  const auto is_refused = Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  ASSERT_THAT(Parse({"--etcd-endpoints=10.0.0.7:2379", "--meta-dir=/m"}), IsOk());
  EXPECT_THAT(Validate(options_), is_refused);
}

TEST_F(OptionsTest, SettingsOfEtcdAndOfTheElectionAreChecked) {
  const auto is_refused = Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  ASSERT_THAT(Parse({"--etcd-endpoints=10.0.0.7:2379", "--etcd-user=u"}), IsOk());
  EXPECT_THAT(Validate(options_), is_refused) << "no password";
  ASSERT_THAT(Parse({"--etcd-password-file=/p"}), IsOk());
  EXPECT_THAT(Validate(options_), IsOk());
  ASSERT_THAT(Parse({"--election-lease=1500ms"}), IsOk());
  EXPECT_THAT(Validate(options_), is_refused);
  ASSERT_THAT(Parse({"--election-lease=3s", "--etcd-prefix=moonpool"}), IsOk());
  EXPECT_THAT(Validate(options_), is_refused);
}

// Its address would be told to nobody.
TEST_F(OptionsTest, AMasterThatIsAloneAdvertisesNothing) {
  ASSERT_THAT(Parse({"--advertise=10.0.0.1:7400"}), IsOk());
  EXPECT_THAT(Validate(options_),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

}  // namespace
}  // namespace moonpool::master
