// What a user sees: outputs, JSON, exit codes.
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class CliTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pool_ = Pool::Start({.nodes = 2, .dram_bytes = uint64_t{32} << 20}).release();
  }
  static void TearDownTestSuite() {
    delete pool_;
    pool_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(pool_, nullptr); }

  static Pool* pool_;
  const TempDir dir_;
};

Pool* CliTest::pool_ = nullptr;

TEST_F(CliTest, AFileComesBackByteForByte) {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  WriteFile(dir_.File("in"), bytes);
  EXPECT_EQ(pool_->Cli({"put", "file", dir_.File("in")}).exit_code, 0);
  EXPECT_EQ(pool_->Cli({"get", "file"}).out, bytes);
  EXPECT_EQ(pool_->Cli({"get", "file", "-o", dir_.File("out")}).exit_code, 0);
  EXPECT_EQ(ReadFile(dir_.File("out")), bytes);
}

TEST_F(CliTest, StandardInputAndAnEmptyObject) {
  EXPECT_EQ(pool_->Cli({"put", "stdin"}, "from a pipe").exit_code, 0);
  EXPECT_EQ(pool_->Cli({"get", "stdin"}).out, "from a pipe");
  EXPECT_EQ(pool_->Cli({"put", "empty"}, "").exit_code, 0);
  const CliResult empty = pool_->Cli({"get", "empty"});
  EXPECT_EQ(empty.exit_code, 0) << empty.err;
  EXPECT_EQ(empty.out, "");
}

TEST_F(CliTest, AnyByteIsAKey) {
  const std::string key = "a\\\\b\\x00\\xff c";
  EXPECT_EQ(pool_->Cli({"put", key}, "x").exit_code, 0);
  EXPECT_EQ(pool_->Cli({"get", key}).out, "x");
  const CliResult objects = pool_->Cli({"objects", "--prefix", "a\\\\", "--json"});
  EXPECT_EQ(objects.Json()["objects"][0]["key"], key);
  EXPECT_EQ(pool_->Cli({"get", "bad\\q"}).exit_code, 2);
}

TEST_F(CliTest, AMissHasItsOwnExitCodeAndReason) {
  const CliResult get = pool_->Cli({"get", "nowhere"});
  EXPECT_EQ(get.exit_code, 3);
  EXPECT_THAT(get.err, HasSubstr("NEVER_STORED"));
  EXPECT_THAT(get.err, HasSubstr("; `moonpool why KEY` says what became of it"));
  EXPECT_EQ(pool_->Cli({"why", "nowhere", "--json"}).Json()["state"], "never_stored");
  EXPECT_EQ(pool_->Cli({"rm", "nowhere"}).exit_code, 3);
}

TEST_F(CliTest, APutOfAKeyThatIsThereIsRefused) {
  EXPECT_EQ(pool_->Cli({"put", "twice"}, "first").exit_code, 0);
  const CliResult again = pool_->Cli({"put", "twice"}, "second");
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err,
              HasSubstr("moonpool: ALREADY_EXISTS: key \"twice\": the key has an object; "
                        "objects never change"));
  EXPECT_EQ(pool_->Cli({"get", "twice"}).out, "first");
}

TEST_F(CliTest, ExistsAndRemoveAnswerPerKey) {
  EXPECT_EQ(pool_->Cli({"put", "e1"}, "x").exit_code, 0);
  const CliResult both = pool_->Cli({"exists", "e1", "e2", "--json"});
  EXPECT_EQ(both.exit_code, 3);
  EXPECT_EQ(both.Json()["results"][0]["code"], "OK");
  EXPECT_EQ(both.Json()["results"][1]["reason"], "NEVER_STORED");
  EXPECT_EQ(pool_->Cli({"exists", "e1"}).exit_code, 0);
  EXPECT_EQ(pool_->Cli({"rm", "e1"}).exit_code, 0);
  EXPECT_EQ(pool_->Cli({"exists", "e1", "--json"}).Json()["results"][0]["reason"], "REMOVED");
}

TEST_F(CliTest, ChainsAreShown) {
  EXPECT_EQ(pool_->Cli({"put", "c0"}, "x").exit_code, 0);
  EXPECT_EQ(pool_->Cli({"put", "c1", "--parent", "c0"}, "y").exit_code, 0);
  const nlohmann::json why = pool_->Cli({"why", "c1", "--json"}).Json();
  EXPECT_EQ(why["state"], "stored");
  EXPECT_EQ(why["parent"], "c0");
  EXPECT_EQ(why["adopted"], false);
  EXPECT_THAT(why["replicas"][0][0]["node"].get<std::string>(), HasSubstr("node-"));
  EXPECT_EQ(pool_->Cli({"why", "c0", "--json"}).Json()["children"], 1);
}

TEST_F(CliTest, StatusAndNodesAddUp) {
  EXPECT_EQ(pool_->Cli({"put", "counted"}, "x").exit_code, 0);
  const nlohmann::json status = pool_->Status();
  EXPECT_EQ(status["nodes_up"], 2);
  EXPECT_GE(status["objects"].get<int>(), 1);
  const nlohmann::json nodes = pool_->Cli({"nodes", "--json"}).Json()["nodes"];
  ASSERT_EQ(nodes.size(), 2u);
  uint64_t capacity = 0;
  uint64_t parts = 0;
  for (const auto& node : nodes) {
    EXPECT_TRUE(node["up"].get<bool>());
    capacity += node["capacity_bytes"].get<uint64_t>();
    parts += node["parts"].get<uint64_t>();
  }
  EXPECT_GE(parts, status["objects"].get<uint64_t>()) << "an object is one part at least";
  EXPECT_EQ(status["capacity_bytes"], capacity);
  EXPECT_THAT(pool_->Cli({"nodes"}).out, HasSubstr("node-1"));
  EXPECT_THAT(pool_->Cli({"status"}).out, HasSubstr("2 up of 2 known"));
  EXPECT_EQ(status.at("master"), pool_->master());
}

TEST_F(CliTest, ObjectsComeInPagesUpToTheLimit) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(pool_->Cli({"put", "page/" + std::to_string(i)}, "x").exit_code, 0);
  }
  const nlohmann::json all = pool_->Cli({"objects", "--prefix", "page/", "--json"}).Json();
  EXPECT_EQ(all["objects"].size(), 5u);
  EXPECT_FALSE(all["has_more"].get<bool>());
  const nlohmann::json some =
      pool_->Cli({"objects", "--prefix", "page/", "--limit", "3", "--json"}).Json();
  EXPECT_EQ(some["objects"].size(), 3u);
  EXPECT_TRUE(some["has_more"].get<bool>());
}

TEST_F(CliTest, AnUnknownNamespaceIsAnErrorAndNoMiss) {
  const CliResult get = pool_->Cli({"get", "k", "--namespace", "nobody"});
  EXPECT_EQ(get.exit_code, 1);
  EXPECT_THAT(get.err, HasSubstr("NAMESPACE_UNKNOWN"));
}

TEST_F(CliTest, AFingerprintMakesANamespaceAndIsComparedAfterwards) {
  const std::vector<std::string> put = {"put", "k", "--namespace", "toy"};
  const auto with = [&put](const std::string& fingerprint) {
    std::vector<std::string> args = put;
    args.insert(args.end(), {"--fingerprint", fingerprint});
    return args;
  };
  EXPECT_THAT(pool_->Cli(put, "x").err, HasSubstr("NAMESPACE_UNKNOWN"));
  EXPECT_EQ(pool_->Cli(with("v1"), "x").exit_code, 0);
  EXPECT_EQ(pool_->Cli({"get", "k", "--namespace", "toy"}).out, "x");
  const CliResult other = pool_->Cli(with("v2"), "x");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("FINGERPRINT_MISMATCH"));
}

TEST_F(CliTest, FewerReplicasMayDo) {
  EXPECT_EQ(pool_->Cli({"put", "few", "--replicas", "4", "--min-replicas", "2"}, "x").exit_code, 0);
  EXPECT_EQ(pool_->Cli({"why", "few", "--json"}).Json()["replicas"].size(), 2u);
  const CliResult more = pool_->Cli({"put", "k", "--replicas", "2", "--min-replicas", "3"}, "x");
  EXPECT_EQ(more.exit_code, 2);
  EXPECT_THAT(more.err, HasSubstr("--min-replicas 3 is more than --replicas 2"));
}

// Sets a variable of this process, which the programs inherit, as long as it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    EXPECT_EQ(setenv(name, value.c_str(), /*overwrite=*/1), 0);
  }
  ~Environment() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST_F(CliTest, TheEnvironmentNamesTheMasterUnlessAFlagDoes) {
  {
    const Environment master("MOONPOOL_MASTER", pool_->master());
    EXPECT_EQ(RunCli({"status"}).exit_code, 0);
    EXPECT_EQ(RunCli({"status", "--master", "127.0.0.1:1"}).exit_code, 1);
  }
  const Environment nonsense("MOONPOOL_MASTER", "nonsense");
  const CliResult status = RunCli({"status"});
  EXPECT_EQ(status.exit_code, 2);
  EXPECT_THAT(status.err, HasSubstr("MOONPOOL_MASTER=nonsense: \"nonsense\" is not HOST:PORT"));
}

TEST_F(CliTest, AQuickBenchSaysThatItProvesNothing) {
  const CliResult quick = pool_->Cli({"bench", "--suite", "control", "--quick"});
  EXPECT_EQ(quick.exit_code, 0) << quick.err;
  EXPECT_THAT(quick.out, testing::StartsWith("A quick run proves nothing"));
  EXPECT_THAT(quick.out, HasSubstr("kept (proves nothing)"));
}

TEST_F(CliTest, ErrorsAreJsonToo) {
  const CliResult why = pool_->Cli({"why", "k", "--namespace", "nobody", "--json"});
  EXPECT_EQ(why.Json()["error"]["reason"], "NAMESPACE_UNKNOWN");
  const CliResult usage = pool_->Cli({"get", "--json"});
  EXPECT_EQ(usage.exit_code, 2);
  EXPECT_EQ(usage.Json()["error"]["message"], "KEY is required");
  EXPECT_THAT(usage.Json()["error"]["hint"].get<std::string>(), HasSubstr("moonpool get --help"));
  const CliResult replay = pool_->Cli({"replay", "--json"});
  EXPECT_EQ(replay.exit_code, 2);
  EXPECT_EQ(replay.Json()["error"]["reason"], "BAD_ARGUMENT");
}

TEST_F(CliTest, WhatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(pool_->Cli({"put", "shown"}, "x").exit_code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"status"},          {"status", "--json"},  {"nodes"},        {"objects"},   {"get", "shown"},
      {"exists", "shown"}, {"exists", "nowhere"}, {"why", "shown"}, {"--version"}, {"--help"},
      {"put", "--help"}};
  for (const auto& command : commands) {
    const CliResult result = pool_->Cli(command, "", "/dev/full");
    EXPECT_EQ(result.exit_code, 1) << command[0];
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output")) << command[0];
  }
}

TEST_F(CliTest, AFileThatIsNotThereIsNoMiss) {
  EXPECT_EQ(pool_->Cli({"put", "filed"}, "x").exit_code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"put", "k", dir_.File("none")},
      {"get", "filed", "--output", dir_.File("none/out")},
      {"replay", "--trace", dir_.File("none")},
      {"replay", "--generate", "chat", "--requests", "1", "--json", dir_.File("none/out")}};
  for (const auto& command : commands) {
    const CliResult result = pool_->Cli(command);
    EXPECT_EQ(result.exit_code, 1) << command[0];
    EXPECT_THAT(result.err, HasSubstr("No such file or directory")) << command[0];
    EXPECT_THAT(result.err, HasSubstr("; name a ")) << command[0];
  }
  EXPECT_EQ(pool_->Cli({"forget", "nobody"}).exit_code, 3);
}

TEST_F(CliTest, AFileWithoutAnEndIsRefused) {
  const CliResult put = pool_->Cli({"put", "endless", "/dev/zero"});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err, HasSubstr("VALUE_TOO_LARGE"));
  EXPECT_THAT(put.err, HasSubstr("add nodes"));
}

TEST_F(CliTest, JsonAndTheObjectDoNotMix) {
  const CliResult get = pool_->Cli({"get", "k", "--json"});
  EXPECT_EQ(get.exit_code, 2);
  EXPECT_THAT(get.Json()["error"]["hint"].get<std::string>(), HasSubstr("--output"));
  EXPECT_EQ(pool_->Cli({"get", "k", "--json", "-o", "-"}).exit_code, 2);
}

TEST_F(CliTest, AReplayIsCleanAndNeverBeatsTheIdeal) {
  const CliResult replay = pool_->Cli({"replay", "--generate", "chat", "--requests", "60",
                                       "--clients", "2", "--block-bytes", "16KiB", "--json"});
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  const nlohmann::json report = replay.Json();
  EXPECT_EQ(report["requests"], 60);
  EXPECT_EQ(report["wrong_bytes"], 0);
  EXPECT_EQ(report["errors"], 0);
  EXPECT_GT(report["hit_blocks"].get<int>(), 0);
  EXPECT_LE(report["hit_rate"].get<double>(), report["ideal_unbounded"].get<double>());
}

TEST_F(CliTest, AReplayFindsAWrongByte) {
  const std::vector<std::string> replay = {"replay", "--generate",   "chat", "--requests",
                                           "5",      "--key-prefix", "bad/", "--block-bytes",
                                           "4096",   "--json"};
  EXPECT_EQ(pool_->Cli(replay).exit_code, 0);
  EXPECT_EQ(pool_->Cli({"rm", "bad/0"}).exit_code, 0);
  EXPECT_EQ(pool_->Cli({"put", "bad/0"}, std::string(4096, 'x')).exit_code, 0);
  const CliResult again = pool_->Cli(replay);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_GT(again.Json()["wrong_bytes"].get<int>(), 4000);
}

TEST(CliWithoutAPool, ADeadAddressSaysWhatToDo) {
  // The cause stands in brackets where gRPC knew it, which depends on how far its attempt came.
  for (const char* command : {"status", "nodes", "objects", "why k", "get k", "exists k"}) {
    std::vector<std::string> args = {"--master", "127.0.0.1:1", "--timeout", "2s"};
    for (const auto word : absl::StrSplit(command, ' ')) args.emplace_back(word);
    const CliResult result = RunCli(args);
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.err, testing::StartsWith("moonpool: UNAVAILABLE (PEER_UNREACHABLE): no "
                                                "master answers at 127.0.0.1:1"));
    EXPECT_THAT(result.err, HasSubstr("; is moonpool-master running there? else start a local "
                                      "cluster with `moonpool dev`"));
  }
}

TEST(CliWithoutNodes, APutReadsNothingThatCannotBeStored) {
  const auto pool = Pool::Start({.nodes = 0});
  ASSERT_NE(pool, nullptr);
  const CliResult put = pool->Cli({"put", "k", "/dev/zero"});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err, HasSubstr("NO_NODES"));
  EXPECT_THAT(put.err, HasSubstr("; start a moonpool-node"));
}

TEST(CliWithoutNodes, AStoppedMasterIsNamedLongBeforeTheTimeout) {
  const auto pool = Pool::Start({.nodes = 0});
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect({.timeout = absl::Seconds(30), .wait_for_master = false});
  ASSERT_NE(client, nullptr);
  StopInPlace(*pool->cluster().master().process);
  // Over a connection that stands, and over one that would have to be made.
  const absl::Status get = client->Get("k").status();
  const CliResult cli = pool->Cli({"get", "k", "--timeout", "10m"});
  pool->cluster().master().process->Signal(SIGCONT);
  EXPECT_THAT(get, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Describe(get), HasSubstr("no sign of life within 1s; is moonpool-master stopped"));
  EXPECT_EQ(cli.exit_code, 1);
  EXPECT_THAT(cli.err, HasSubstr("no master answers at " + pool->master()));
  EXPECT_THAT(cli.err, HasSubstr("; is moonpool-master running there? else start"));
}

size_t WidestLine(const std::string& text) {
  size_t widest = 0;
  for (size_t start = 0, end; start < text.size(); start = end + 1) {
    end = std::min(text.find('\n', start), text.size());
    widest = std::max(widest, end - start);
  }
  return widest;
}

TEST(CliWithoutAPool, EveryCommandHasExamplesAndExitCodes) {
  for (const char* command : {"dev", "status", "nodes", "objects", "put", "get", "exists", "rm",
                              "why", "drain", "forget", "replay", "bench"}) {
    const CliResult help = RunCli({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("Examples:\n  moonpool ") + command));
    EXPECT_THAT(help.out, HasSubstr("Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 "));
    EXPECT_THAT(help.out, testing::AnyOf(HasSubstr("--json"), HasSubstr("ready: --master")));
    EXPECT_LE(WidestLine(help.out), 80u) << help.out;
  }
  EXPECT_LE(WidestLine(RunCli({"--help"}).out), 80u);
}

TEST(CliWithoutAPool, WrongUsageIsTwo) {
  EXPECT_EQ(RunCli({}).exit_code, 2);
  EXPECT_EQ(RunCli({"frobnicate"}).exit_code, 2);
  EXPECT_EQ(RunCli({"get"}).exit_code, 2);
  EXPECT_EQ(RunCli({"status", "--master", "nonsense"}).exit_code, 2);
  EXPECT_EQ(RunCli({"dev", "--dram", "12M"}).exit_code, 2);
  EXPECT_EQ(RunCli({"replay"}).exit_code, 2);
  for (const std::vector<std::string>& refused_by_a_daemon :
       {std::vector<std::string>{"dev", "--dram", "1B"},
        std::vector<std::string>{"dev", "--eviction-policy", "nope"}}) {
    const CliResult result = RunCli(refused_by_a_daemon);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(refused_by_a_daemon[1]));
    EXPECT_THAT(result.err, Not(HasSubstr("--master-listen"))) << "it has nothing to do with it";
  }
  EXPECT_EQ(RunCli({"--help"}).exit_code, 0);
  EXPECT_EQ(RunCli({"help"}).out, RunCli({"--help"}).out);
  EXPECT_THAT(RunCli({"put", "--help"}).out, HasSubstr("Examples:"));
}

TEST(SimCommand, WrongUsageIsTwo) {
  const std::string sim = ProgramDir() + "/moonpool-sim";
  EXPECT_EQ(RunProgram(sim, {"--seeds", "many"}).exit_code, 2);
  EXPECT_EQ(RunProgram(sim, {"--sead", "1"}).exit_code, 2);
  EXPECT_EQ(RunProgram(sim, {"--help"}).exit_code, 0);
}

TEST(DevCommand, ServesUntilItIsToldToStop) {
  const TempDir dir;
  auto dev = dev::ChildProcess::Start(
      {.name = "dev",
       .program = ProgramDir() + "/moonpool",
       .args = {"dev", "--nodes", "2", "--dram", "8388608", "--eviction-policy", "lru"},
       .log_path = dir.File("log")});
  ASSERT_THAT(dev, IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string ready, (*dev)->WaitForLine("ready: ", kPatience, -1));
  const std::string master = ready.substr(std::string("ready: --master ").size());
  const nlohmann::json status = RunCli({"--master", master, "status", "--json"}).Json();
  EXPECT_EQ(status["nodes_up"], 2);
  EXPECT_EQ(status["eviction_policy"], "lru");
  EXPECT_EQ(status["capacity_bytes"], 2 * 8388608);
  EXPECT_TRUE((*dev)->Terminate(kPatience));
  EXPECT_EQ(dev::DescribeWaitStatus(*(*dev)->Poll()), "exit code 0");
  EXPECT_EQ(RunCli({"--master", master, "--timeout", "1s", "status"}).exit_code, 1);
}

// What no table of settings can find out: two that do not go together, or this machine.
TEST(CliWithoutAPool, ADaemonRefusesSettingsThatCannotWorkWithExitCodeTwo) {
  const std::vector<std::vector<std::string>> refused = {
      {"moonpool-node", "--name", "a b"},
      {"moonpool-node", "--rack", "\xff"},
      {"moonpool-node", "--data-advertise", "evil host:1"},
      {"moonpool-node", "--data-listen", "localhost:0"},
      {"moonpool-node", "--numa-node", "1000"},
      {"moonpool-node", "--shm-path", "relative.sock"},
      {"moonpool-node", "--config="},
      {"moonpool-master", "--node-heartbeat", "2s", "--node-session-timeout", "3s"}};
  for (const std::vector<std::string>& words : refused) {
    auto child = dev::ChildProcess::Start({.name = "daemon",
                                           .program = ProgramDir() + "/" + words[0],
                                           .args = {words.begin() + 1, words.end()},
                                           .log_path = "/dev/null"});
    ASSERT_THAT(child, IsOk());
    EXPECT_FALSE((*child)->WaitForLine("ready:", kPatience, -1).ok()) << words[1];
    ASSERT_TRUE((*child)->WaitForExit(kPatience));
    EXPECT_EQ(dev::DescribeWaitStatus(*(*child)->Poll()), "exit code 2") << words[1];
  }
}

// Before it plays for an hour.
TEST(CliWithoutAPool, ReplayOpensItsOutputFirst) {
  const CliResult replay = RunCli(
      {"replay", "--master", "127.0.0.1:1", "--generate", "chat", "--json", "/nonexistent/x"});
  EXPECT_EQ(replay.exit_code, 1);
  EXPECT_THAT(replay.err, HasSubstr("open /nonexistent/x"));
}

TEST(Cli, PutNeedsAStandardInput) {
  const auto pool = Pool::Start({.nodes = 1, .dram_bytes = uint64_t{8} << 20});
  auto shell = dev::ChildProcess::Start(
      {.name = "put",
       .program = "/bin/sh",
       .args = {"-c", ProgramDir() + "/moonpool --master " + pool->master() + " put k - <&-"},
       .log_path = "/dev/null"});
  ASSERT_THAT(shell, IsOk());
  ASSERT_TRUE((*shell)->WaitForExit(kPatience));
  EXPECT_EQ(dev::DescribeWaitStatus(*(*shell)->Poll()), "exit code 1");
  EXPECT_EQ(pool->Cli({"get", "k"}).exit_code, 3) << "nothing was stored";
}

// The pid that `moonpool dev` printed for one of its processes.
int PidOf(const std::string& name, const std::string& log) {
  return std::stoi(log.substr(log.find("pid ", log.find(name)) + 4));
}

// Gone, or a zombie that nobody has waited for yet.
bool IsDead(int pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t state = stat.rfind(") ");
  return state == std::string::npos || stat[state + 2] == 'Z' || stat[state + 2] == 'X';
}

std::unique_ptr<dev::ChildProcess> StartDev(const TempDir& dir) {
  auto dev = dev::ChildProcess::Start({.name = "dev",
                                       .program = ProgramDir() + "/moonpool",
                                       .args = {"dev", "--dram", "8MiB"},
                                       .log_path = dir.File("log")});
  EXPECT_THAT(dev, IsOk());
  EXPECT_THAT((*dev)->WaitForLine("ready: ", kPatience, -1), IsOk());
  return *std::move(dev);
}

TEST(DevCommand, ItsProcessesDieWithIt) {
  const TempDir dir;
  const auto dev = StartDev(dir);
  const std::string log = ReadFile(dir.File("log"));
  dev->Signal(SIGKILL);
  ASSERT_TRUE(dev->WaitForExit(kPatience));
  EXPECT_TRUE(Eventually([&] { return IsDead(PidOf("master", log)); }));
  EXPECT_TRUE(Eventually([&] { return IsDead(PidOf("node-0", log)); }));
  // Nobody was left to remove it.
  const std::string before = "run directory ";
  const size_t run_dir = log.find(before) + before.size();
  EXPECT_GT(std::filesystem::remove_all(log.substr(run_dir, log.find(' ', run_dir) - run_dir)), 1u);
}

TEST(DevCommand, AMastersPortInUseIsAnErrorThatNamesTheFlagOfDev) {
  const TempDir dir;
  const auto dev = StartDev(dir);
  const std::string log = ReadFile(dir.File("log"));
  const std::string before = "  master ";
  const size_t address = log.find(before) + before.size();
  const CliResult second = RunCli(
      {"dev", "--master-listen", log.substr(address, log.find_first_of(" \n", address) - address)});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on"));
  EXPECT_THAT(second.err, HasSubstr("; `moonpool dev` has --master-listen for the master's"));
}

TEST(DevCommand, TellsWhenAChildDies) {
  const TempDir dir;
  const auto dev = StartDev(dir);
  ASSERT_EQ(kill(PidOf("node-0", ReadFile(dir.File("log"))), SIGKILL), 0);
  ASSERT_TRUE(dev->WaitForExit(kPatience));
  EXPECT_EQ(dev::DescribeWaitStatus(*dev->Poll()), "exit code 1");
  EXPECT_THAT(ReadFile(dir.File("log")), HasSubstr("node-0 ended: signal 9"));
}

}  // namespace
}  // namespace moonpool::e2e
