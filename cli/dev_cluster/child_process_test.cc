#include "cli/dev_cluster/child_process.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonpool::dev {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

class ChildProcessTest : public testing::Test {
 protected:
  ChildProcessTest() : dir_(testing::TempDir() + "child-XXXXXX") {
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
  }
  ~ChildProcessTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<ChildProcess> Shell(const std::string& script) {
    auto child = ChildProcess::Start({.name = "script",
                                      .program = "/bin/sh",
                                      .args = {"-c", script},
                                      .log_path = dir_ + "/script.log"});
    EXPECT_THAT(child, IsOk());
    return *std::move(child);
  }
  std::string dir_;
};

TEST_F(ChildProcessTest, FindsTheLineItWaitsFor) {
  auto child = Shell("echo hello; echo ready: --master a:1; exec sleep 60");
  ASSERT_OK_AND_ASSIGN(const std::string line, child->WaitForLine("ready:", kPatience, -1));
  EXPECT_EQ(line, "ready: --master a:1");
  EXPECT_TRUE(child->running());
  EXPECT_TRUE(child->Terminate(kPatience));
  EXPECT_EQ(DescribeWaitStatus(*child->Poll()), "signal 15 (Terminated)");
}

TEST_F(ChildProcessTest, AnEarlyEndIsToldWithItsLastWords) {
  auto child = Shell("echo the disk is on fire >&2; exit 7");
  const absl::Status status = child->WaitForLine("ready:", kPatience, -1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("script ended: exit code 7"));
  EXPECT_THAT(status.message(), HasSubstr("the disk is on fire"));
}

TEST_F(ChildProcessTest, AProgramThatRefusesItsSettingsIsToldApart) {
  auto child = Shell("echo no such policy >&2; exit 2");
  const absl::Status status = child->WaitForLine("ready:", kPatience, -1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no such policy"));
}

TEST_F(ChildProcessTest, WaitingEndsAtItsDeadline) {
  auto child = Shell("exec sleep 60");
  EXPECT_EQ(child->WaitForLine("ready:", absl::Milliseconds(20), -1).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ChildProcessTest, WaitingEndsWhenAskedToStop) {
  auto child = Shell("exec sleep 60");
  const UniqueFd stop(eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(child->WaitForLine("ready:", kPatience, stop.get()).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(ChildProcessTest, WhoIgnoresSigtermIsKilled) {
  auto child = Shell("trap '' TERM; echo ready: now; while :; do sleep 60; done");
  ASSERT_THAT(child->WaitForLine("ready:", kPatience, -1), IsOk());
  EXPECT_FALSE(child->Terminate(absl::Milliseconds(20)));
  EXPECT_EQ(DescribeWaitStatus(*child->Poll()), "signal 9 (Killed)");
}

TEST_F(ChildProcessTest, AMissingProgramIsNamed) {
  const absl::Status status =
      ChildProcess::Start({.name = "x", .program = "/nowhere/x", .args = {}, .log_path = ""})
          .status();
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/x"));
}

}  // namespace
}  // namespace moonpool::dev
