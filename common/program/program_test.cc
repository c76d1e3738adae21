#include "common/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "nlohmann/json.hpp"

namespace moonpool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Options {
  int threads = 2;
  std::string token;
};

struct Result {
  int exit_code;
  std::string out;
  std::string err;
};

Result RunWith(std::vector<std::string> args, const std::function<absl::Status(Program&)>& body) {
  Options options;
  LogOptions log;
  ConfigTable table({.program = "moonpool-test", .summary = "S.", .version = "1.2.3"});
  table.Int("threads", &options.threads, {1, 8}, "Threads.");
  table.Secret("token", &options.token, "Token.");
  DescribeLog(log, table);
  args.insert(args.begin(), "moonpool-test");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = RunProgram({static_cast<int>(argv.size()), argv.data()}, table, log, body);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

absl::Status NotReached(Program&) { return absl::InternalError("the body ran"); }

TEST(Program, BadSettingsAreOneLineAndExitCodeTwo) {
  const Result result = RunWith({"--threads=9"}, NotReached);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "moonpool-test: --threads=9: out of range, allowed 1..8\n");
}

TEST(Program, VersionGoesToStdoutAndNothingElseHappens) {
  const Result result = RunWith({"--version"}, NotReached);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "moonpool-test 1.2.3\n");
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(Program, TheHelpListsTheExitCodes) {
  const Result result = RunWith({"--help"}, NotReached);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\nExit codes: 0 ok (it was asked to stop), 1 failed, 2 "));
}

TEST(Program, SettingsAreLoggedAtStartWithoutSecrets) {
  const Result result =
      RunWith({"--threads=4", "--token=xyzzy"}, [](Program&) { return absl::OkStatus(); });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("info starting moonpool-test version=1.2.3 pid="));
  EXPECT_THAT(result.err, HasSubstr("info setting key=threads value=4\n"));
  EXPECT_THAT(result.err, HasSubstr("info setting key=token value=<redacted>\n"));
}

TEST(Program, FailureOfTheBodyIsOneLineAndExitCodeOne) {
  const Result result = RunWith({}, [](Program&) { return absl::UnavailableError("no master"); });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("moonpool-test: UNAVAILABLE"));
  EXPECT_THAT(result.err, HasSubstr("no master"));
}

TEST(Program, SettingsThatTheBodyRefusesAreExitCodeTwo) {
  const Result result = RunWith({}, [](Program&) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "there is no NUMA node 7 here");
  });
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no NUMA node 7 here"));
}

// The messages of lines that are JSON objects with no name twice; fails the test where one is not.
std::vector<std::string> MessagesOf(const std::string& lines) {
  std::vector<std::string> messages;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    std::set<std::string> names;
    const auto is_new = [&names](int, nlohmann::json::parse_event_t event, nlohmann::json& name) {
      if (event == nlohmann::json::parse_event_t::key) {
        EXPECT_TRUE(names.insert(name.get<std::string>()).second) << name;
      }
      return true;
    };
    const auto object = nlohmann::json::parse(line, is_new, /*allow_exceptions=*/false);
    EXPECT_TRUE(object.is_object()) << line;
    messages.push_back(object.value("message", ""));
  }
  return messages;
}

TEST(Program, EveryLineIsJsonWhereThatIsAskedFor) {
  const Result result = RunWith({"--log-format=json", "--threads=4"},
                                [](Program&) { return absl::UnavailableError("no master"); });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(MessagesOf(result.err),
              ElementsAre("starting moonpool-test", "setting", "setting", "UNAVAILABLE: no master",
                          "stopped moonpool-test"))
      << result.err;
}

TEST(Program, BadSettingsAreJsonOnceTheFormatIsRead) {
  const Result result = RunWith({"--log-format=json", "--threads=9"}, NotReached);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(MessagesOf(result.err), ElementsAre("--threads=9: out of range, allowed 1..8"));
}

TEST(Program, SignalAsksToStop) {
  for (const int number : {SIGINT, SIGTERM}) {
    const Result result = RunWith({}, [number](Program& program) {
      EXPECT_FALSE(program.stop().is_requested());
      kill(getpid(), number);
      program.stop().Wait();
      return absl::OkStatus();
    });
    EXPECT_EQ(result.exit_code, 0);
  }
}

TEST(Program, ThePartsOfAProgramMayAskToo) {
  const Result result = RunWith({}, [](Program& program) {
    std::thread part([&] { program.stop().Request(); });
    program.stop().Wait();
    part.join();
    EXPECT_TRUE(program.stop().WaitFor(absl::ZeroDuration()));
    return absl::OkStatus();
  });
  EXPECT_EQ(result.exit_code, 0);
}

TEST(ProgramDeathTest, SecondSignalEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignals stop;
        kill(getpid(), SIGTERM);
        stop.Wait();
        kill(getpid(), SIGINT);
        for (;;) pause();
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(Program, OperationsPortOpensAndCloses) {
  const Result result = RunWith({"--threads=3"}, [](Program& program) -> absl::Status {
    ASSIGN_OR_RETURN(auto operations, program.StartOperations({}, [] {
      return Health{true, "serving"};
    }));
    EXPECT_THAT(operations->address(), testing::StartsWith("127.0.0.1:"));
    return absl::OkStatus();
  });
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("operations port open address=127.0.0.1:"));
}

TEST(Program, AnOperationsPortInUseIsAnErrorThatNamesTheFlag) {
  const Result result = RunWith({}, [](Program& program) -> absl::Status {
    ASSIGN_OR_RETURN(auto first, program.StartOperations({}, [] { return Health{true, ""}; }));
    return program.StartOperations({.listen = first->address()},
                                   [] {
                                     return Health{true, ""};
                                   })
        .status();
  });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("Address already in use; choose another address with "
                                    "--http-listen"));
}

[[noreturn]] void PrintHelpToAFullDisk() {
  Options options;
  ConfigTable table({.program = "moonpool-test", .summary = "S.", .version = "1.2.3"});
  if (std::freopen("/dev/full", "w", stdout) == nullptr) _exit(99);
  char program[] = "moonpool-test";
  char help[] = "--help";
  char* argv[] = {program, help};
  _exit(RunProgram({2, argv}, table, LogOptions{}, NotReached));
}

TEST(ProgramDeathTest, HelpThatCannotBeWrittenIsAFailure) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(PrintHelpToAFullDisk(), testing::ExitedWithCode(1),
              "cannot write to standard output: No space left on device");
}

}  // namespace
}  // namespace moonpool
