// What people are told about command lines that make no sense.
#include "cli/usage.h"

#include <cerrno>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/values.h"
#include "common/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonpool::cli {
namespace {

using testing::HasSubstr;

// "message; hint"; "" for a command line that is right.
std::string Complaint(const std::vector<std::string>& words) {
  Session session;
  CLI::App app("moonpool", "moonpool");
  app.require_subcommand(1);
  AddConnectionOptions(app, session);
  AddStatusCommand(app, session);
  AddGetCommand(app, session);
  AddPutCommand(app, session);
  AddObjectsCommand(app, session);
  AddReplayCommand(app, session);
  AddForgetCommand(app, session);
  AddDrainCommand(app, session);
  std::vector<const char*> argv = {"moonpool"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const auto parsed = ParseCommandLine(app, static_cast<int>(argv.size()), argv.data());
  if (parsed.ok()) return *parsed;
  EXPECT_EQ(ReasonOf(parsed.status()), ErrorReason::kBadArgument);
  return std::string(parsed.status().message()) + "; " + DetailOf(parsed.status())->hint;
}

TEST(Usage, HelpIsText) {
  EXPECT_THAT(Complaint({"--help"}), HasSubstr("status"));
  EXPECT_THAT(Complaint({"get", "--help"}), HasSubstr("moonpool get greeting"));
}

TEST(Usage, HelpIsAWordToo) {
  EXPECT_EQ(Complaint({"help"}), Complaint({"--help"}));
  EXPECT_EQ(Complaint({"help", "get"}), Complaint({"get", "--help"}));
  EXPECT_EQ(Complaint({"help", "stauts"}), "unknown command \"stauts\"; did you mean `status`?");
}

TEST(Usage, UnknownWordsComeWithTheNearestKnownOne) {
  EXPECT_EQ(Complaint({"stauts"}), "unknown command \"stauts\"; did you mean `status`?");
  EXPECT_EQ(Complaint({"zzzzzz"}), "unknown command \"zzzzzz\"; see `moonpool --help`");
  EXPECT_EQ(Complaint({"ls"}), "unknown command \"ls\"; it is `moonpool objects` here");
  EXPECT_EQ(Complaint({"rn"}), "unknown command \"rn\"; see `moonpool --help`")
      << "nothing that takes things away is proposed";
  EXPECT_EQ(Complaint({"status", "--jsn"}), "unknown option --jsn; did you mean `--json`?");
  EXPECT_EQ(Complaint({"status", "--mastr=a:1"}),
            "unknown option --mastr; did you mean `--master`?");
  EXPECT_EQ(Complaint({"status", "put"}), "unexpected word \"put\"; one command at a time");
  EXPECT_EQ(Complaint({"get", "a", "b"}), "unexpected word \"b\"; see `moonpool get --help`");
  EXPECT_EQ(Complaint({}), "no command is given; `moonpool --help` lists them");
}

TEST(Usage, ASizeIsOneOfSomething) {
  EXPECT_EQ(Complaint({"replay", "--block-bytes", "64KiB"}), "");
  EXPECT_THAT(Complaint({"replay", "--block-bytes", "0"}),
              HasSubstr("\"0\" is not allowed; give 1 byte or more"));
  EXPECT_THAT(Complaint({"replay", "--block-bytes", "much"}), HasSubstr("--block-bytes"));
}

TEST(Usage, AMasterIsOneWord) {
  EXPECT_EQ(Complaint({"--master", "a:1,b:2", "--master", "c:3", "status"}), "");
  EXPECT_THAT(Complaint({"--master", "a:1", "b:2", "status"}),
              HasSubstr("separate masters by commas"));
  EXPECT_THAT(Complaint({"status", "--master", "a:1", "b:2"}),
              HasSubstr("separate masters by commas"));
  EXPECT_THAT(Complaint({"--master", ",,", "status"}),
              HasSubstr("--master: the list of masters is empty"));
  EXPECT_THAT(Complaint({"--master", "", "status"}), HasSubstr("the list of masters is empty"));
  EXPECT_THAT(Complaint({"--master", "a:1,b", "status"}), HasSubstr("\"b\" is no HOST:PORT"));
  EXPECT_EQ(Complaint({"get", "k", "--master=a:1", "b:2"}),
            "unexpected word \"b:2\"; --master takes one value: separate masters by commas, or "
            "repeat it");
  EXPECT_EQ(Complaint({"get", "k", "block:12"}),
            "unexpected word \"block:12\"; see `moonpool get --help`");
  EXPECT_EQ(Complaint({"--master", "a:1", "get", "k", "block:12"}),
            "unexpected word \"block:12\"; see `moonpool get --help`");
  EXPECT_EQ(Complaint({"--master", "a:1", "stauts"}),
            "unknown command \"stauts\"; did you mean `status`?");
}

TEST(Usage, ValuesOutOfRangeNameTheOptionAndTheRange) {
  EXPECT_THAT(Complaint({"put", "k", "--replicas", "0"}),
              HasSubstr("--replicas: \"0\" is not allowed; give a whole number, 1 to 8"));
  EXPECT_THAT(Complaint({"put", "k", "--replicas", "two"}), HasSubstr("1 to 8"));
  EXPECT_THAT(Complaint({"objects", "--limit", "-1"}),
              HasSubstr("--limit: \"-1\" is not allowed; give a whole number, 1 to 10000000"));
  EXPECT_THAT(Complaint({"get", "k", "--timeout", "0s"}),
              HasSubstr("--timeout: \"0s\" is not allowed; give 1ms to 24h"));
  EXPECT_THAT(Complaint({"replay", "--generate", "chatt"}), HasSubstr("did you mean chat?"));
  EXPECT_THAT(Complaint({"replay", "--seed", "-1"}), HasSubstr("0 or more"));
}

TEST(Usage, EmptyNamesAreMistakes) {
  EXPECT_THAT(Complaint({"put", "k", "--namespace", ""}),
              HasSubstr("--namespace: the value is empty"));
  EXPECT_THAT(Complaint({"put", "k", "--parent", ""}), HasSubstr("--parent: the key has 0 bytes"));
  EXPECT_THAT(Complaint({"get", ""}), HasSubstr("KEY: the key has 0 bytes"));
  EXPECT_THAT(Complaint({"get", std::string(1025, 'k')}), HasSubstr("a key has 1 to 1024"));
  EXPECT_EQ(Complaint({"objects", "--prefix", ""}), "") << "all of them";
}

TEST(Usage, NamesAreChecked) {
  EXPECT_THAT(Complaint({"put", "k", "--namespace", "\xff\xfe"}),
              HasSubstr("--namespace: \"\\xff\\xfe\" is no name for a namespace; 1 to 255"));
  EXPECT_THAT(Complaint({"--namespace", "two words", "status"}), HasSubstr("is no name"));
  EXPECT_EQ(Complaint({"get", "k", "--namespace", "llama/bf16:tp8"}), "");
  EXPECT_THAT(Complaint({"forget", "\x1b[31m"}),
              HasSubstr("NODE: \"\\x1b[31m\" is no name for a node"));
  EXPECT_THAT(Complaint({"forget", ""}), HasSubstr("NODE: the value is empty"));
  EXPECT_EQ(Complaint({"forget", "node-2"}), "");
  EXPECT_EQ(Complaint({"drain", "node-2", "--wait", "--longest", "1h"}), "");
  EXPECT_THAT(Complaint({"drain", "node-2", "--wait", "--cancel"}), HasSubstr("--cancel"));
  EXPECT_THAT(Complaint({"drain", "node-2", "--longest", "1h"}), HasSubstr("--wait"));
}

TEST(Usage, AnErrorHasNoControlCharacters) {
  const Session session;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Fail(session, absl::InternalError("a\x1b[31m\rb")), kFailed);
  EXPECT_EQ(FailUsage(session, UsageError("\xff\n", "c")), kUsage);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "moonpool: INTERNAL: a\\x1b[31m\\x0db\nmoonpool: \\xff\\x0a; c\n");
}

TEST(Usage, JsonIsSeenEvenInACommandLineThatIsWrong) {
  const char* const wrong[] = {"moonpool", "get", "--json", "--nonsense"};
  EXPECT_TRUE(WantsJson(4, wrong));
  EXPECT_FALSE(WantsJson(2, wrong));
  const char* const with_file[] = {"moonpool", "bench", "--json=out"};
  EXPECT_TRUE(WantsJson(3, with_file));
  EXPECT_FALSE(WantsJson(0, with_file));
}

TEST(ExitCodes, OnlyThePoolSaysNotFound) {
  const auto code = [](absl::StatusCode status, ErrorReason reason) {
    return ExitCodeOf(MakeError(status, reason, "x"));
  };
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), kOk);
  EXPECT_EQ(code(absl::StatusCode::kNotFound, ErrorReason::kEvicted), kNotFound);
  EXPECT_EQ(code(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown), kFailed);
  EXPECT_EQ(code(absl::StatusCode::kUnavailable, ErrorReason::kNodeLost), kFailed);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("no such file")), kFailed);
  const absl::Status file = FileError(ENOENT, "open", "x", "name another");
  EXPECT_EQ(file.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file.message(), "open x: No such file or directory");
  EXPECT_EQ(ExitCodeOf(file), kFailed);
}

}  // namespace
}  // namespace moonpool::cli
