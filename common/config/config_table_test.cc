#include "common/config/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "common/config/host_port.h"
#include "common/config/suggest.h"
#include "common/config/units.h"
#include "common/log.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"

namespace moonpool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

enum class Policy { kLru, kS3Fifo };

struct Options {
  std::string name = "n1";
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> masters;
  uint64_t dram_bytes = kGiB;
  absl::Duration heartbeat = absl::Seconds(1);
  uint16_t threads = 2;
  double watermark = 0.9;
  bool verify = true;
  Policy policy = Policy::kLru;
  std::string token = "hunter2";
};

struct Fixture {
  Options options;
  LogOptions log;
  ConfigTable table{{.program = "moonpool-test",
                     .summary = "Tests things.",
                     .version = "1.2.3",
                     .examples = {{"moonpool-test --name x", "Be x."}}}};

  Fixture() {
    table.Text("name", &options.name, "Who this is.");
    table.Group("Data plane");
    table.ListenAddress("data.listen", &options.listen, "Where clients move bytes.");
    table.Int("data.io_threads", &options.threads, {1, 64}, "Pollers.", "threads");
    table.Group("Cluster");
    table.PeerAddresses("masters", &options.masters, "Who leads.");
    table.Duration("heartbeat.interval", &options.heartbeat,
                   {absl::Milliseconds(10), absl::Minutes(1)}, "How often to report.");
    table.Secret("auth.token", &options.token, "Proves who we are.");
    table.Group("Memory");
    table.Bytes("memory.dram", &options.dram_bytes, {kMiB, kTiB}, "Memory to lend.");
    table.Real("memory.watermark", &options.watermark, {0.1, 1.0}, "When to evict.");
    table.Choice("memory.policy", &options.policy,
                 {{"lru", Policy::kLru}, {"s3fifo", Policy::kS3Fifo}}, "Who goes first.");
    table.Bool("memory.verify", &options.verify, "Check every byte.");
    DescribeLog(log, table);
  }

  std::string Error(std::vector<std::string> args) {
    return std::string(table.Parse(args).status().message());
  }
  std::string TomlError(absl::string_view toml) {
    return std::string(table.ApplyToml(toml, "t.toml").message());
  }
};

std::string WriteFile(const TempDir& dir, const std::string& name, const std::string& content) {
  const std::string path = dir.path() + "/" + name;
  std::ofstream(path) << content;
  return path;
}

TEST(Config, DefaultsAreTheFieldsOwn) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const auto outcome, f.table.Parse({}));
  EXPECT_FALSE(outcome.should_exit);
  EXPECT_EQ(f.options.dram_bytes, kGiB);
  EXPECT_THAT(f.table.ChangedSettings(), IsEmpty());
}

TEST(Config, FlagsInBothSpellings) {
  Fixture f;
  ASSERT_THAT(f.table.Parse({"--data-listen=[::1]:7400", "--data-io-threads", "8", "--memory-dram",
                             "256MiB", "--heartbeat-interval=250ms", "--masters=a:1,b:2",
                             "--memory-policy", "s3fifo", "--memory-watermark=0.5",
                             "--no-memory-verify", "--log-level=debug"}),
              IsOk());
  EXPECT_EQ(f.options.listen, "[::1]:7400");
  EXPECT_EQ(f.options.threads, 8);
  EXPECT_EQ(f.options.dram_bytes, 256 * kMiB);
  EXPECT_EQ(f.options.heartbeat, absl::Milliseconds(250));
  EXPECT_THAT(f.options.masters, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(f.options.policy, Policy::kS3Fifo);
  EXPECT_DOUBLE_EQ(f.options.watermark, 0.5);
  EXPECT_FALSE(f.options.verify);
  EXPECT_EQ(f.log.level, LogLevel::kDebug);
}

TEST(Config, BoolFlagsTakeNoSeparateValue) {
  Fixture f;
  f.options.verify = false;
  std::string word;
  f.table.OptionalPositional("WORD", &word, "Any.");
  ASSERT_THAT(f.table.Parse({"--memory-verify", "false"}), IsOk());
  EXPECT_TRUE(f.options.verify);
  EXPECT_EQ(word, "false");
  ASSERT_THAT(f.table.Parse({"--memory-verify=false"}), IsOk());
  EXPECT_FALSE(f.options.verify);
}

TEST(Config, AStrayArgumentIsRefusedWhateverElseIsAsked) {
  for (const bool prints : {false, true}) {
    Fixture f;
    std::vector<std::string> args = {"stray"};
    std::vector<std::string> spaced = {"--memory-verify", "false"};
    if (prints) args.push_back("--print-config");
    if (prints) spaced.push_back("--print-config");
    EXPECT_EQ(f.Error(args), "\"stray\": unexpected argument; see moonpool-test --help");
    EXPECT_EQ(f.Error(spaced), "\"false\": unexpected argument; write --memory-verify=false");
  }
}

TEST(Config, FlagBeatsFileBeatsDefault) {
  Fixture f;
  const TempDir dir;
  const std::string path = WriteFile(dir, "precedence.toml",
                                     "name = 'file'\n[data]\nio_threads = 4\n"
                                     "[memory]\ndram = 1048576\nwatermark = 1\n");
  ASSERT_THAT(f.table.Parse({"--config", path, "--data-io-threads=8"}), IsOk());
  EXPECT_EQ(f.options.name, "file");
  EXPECT_EQ(f.options.threads, 8);
  EXPECT_EQ(f.options.dram_bytes, kMiB);
  EXPECT_DOUBLE_EQ(f.options.watermark, 1.0);
  EXPECT_EQ(f.options.listen, "127.0.0.1:0");
}

TEST(Config, DefaultFileIsReadUnlessConfigNamesAnother) {
  const TempDir dir;
  const std::string one = WriteFile(dir, "one.toml", "name = 'one'\n");
  const std::string two = WriteFile(dir, "two.toml", "name = 'two'\n");
  Fixture f;
  ASSERT_THAT(f.table.Parse({}, one), IsOk());
  EXPECT_EQ(f.options.name, "one");
  ASSERT_THAT(f.table.Parse({"--config=" + two}, one), IsOk());
  EXPECT_EQ(f.options.name, "two");
}

TEST(Config, TomlErrorsNameFileLineKeyAndWhatIsAllowed) {
  Fixture f;
  EXPECT_EQ(f.TomlError("[data]\nio_threads = 900"),
            "t.toml:2: data.io_threads = 900: out of range, allowed 1..64 threads");
  EXPECT_EQ(f.TomlError("[data]\n\nlisen = 'x:1'"),
            "t.toml:3: unknown key data.lisen; did you mean data.listen?");
  EXPECT_EQ(f.TomlError("listen = 'x:1'"),
            "t.toml:1: unknown key listen; did you mean data.listen?");
  EXPECT_EQ(f.TomlError("zzzzzzzzz = 1"),
            "t.toml:1: unknown key zzzzzzzzz; moonpool-test --print-config lists the known ones");
  EXPECT_EQ(f.TomlError("data.io_threads = 'many'"),
            "t.toml:1: data.io_threads = \"many\": expected an integer");
  EXPECT_EQ(f.TomlError("memory.dram = '1KiB'"),
            "t.toml:1: memory.dram = \"1KiB\": out of range, allowed 1MiB..1TiB");
  EXPECT_EQ(f.TomlError("memory.policy = 'mru'"),
            "t.toml:1: memory.policy = \"mru\": expected one of lru, s3fifo");
  EXPECT_EQ(f.TomlError("masters = [1, 2]"),
            "t.toml:1: masters: neither a boolean, a number, a string nor an array of strings");
  EXPECT_THAT(f.TomlError("a = 1\nb = "), HasSubstr("t.toml:2: "));
  EXPECT_THAT(f.TomlError("heartbeat.interval = '1h'"), HasSubstr("allowed 10ms..1m"));
  EXPECT_THAT(f.TomlError("memory.watermark = nan"), HasSubstr("out of range, allowed 0.1..1"));
  EXPECT_THAT(f.TomlError("name = 2026-01-01"), HasSubstr("t.toml:1: name: neither"));
  EXPECT_THAT(f.TomlError("[dada]"), HasSubstr("t.toml:1: unknown key dada"));
  EXPECT_THAT(f.TomlError("name = {}"), HasSubstr("t.toml:1: name: neither"));
  EXPECT_THAT(f.table.ApplyToml("[data]\n[memory]\n", "t.toml"), IsOk()) << "nothing is set";
}

TEST(Config, KeysOfManyPartsAreRefused) {
  Fixture f;
  std::string deep = "a";
  for (int i = 0; i < 200'000; ++i) deep += ".a";
  EXPECT_EQ(f.TomlError("\n" + deep + " = 1"), "t.toml:2: longer than 4096 bytes");
  EXPECT_EQ(f.TomlError("[" + deep + "]"), "t.toml:1: longer than 4096 bytes");
  EXPECT_THAT(f.TomlError(deep.substr(0, 4090) + "a=1"), HasSubstr("unknown key a.a"));
}

TEST(Config, FlagErrorsNameTheFlag) {
  Fixture f;
  EXPECT_EQ(f.Error({"--data-io-threads=0"}),
            "--data-io-threads=0: out of range, allowed 1..64 threads");
  EXPECT_EQ(f.Error({"--data-io-threads", "x"}), "--data-io-threads=x: expected an integer");
  EXPECT_EQ(f.Error({"--data-lisen=x:1"}),
            "--data-lisen: unknown flag; did you mean --data-listen?");
  EXPECT_EQ(f.Error({"--qqqqqqqqq"}), "--qqqqqqqqq: unknown flag; see moonpool-test --help");
  EXPECT_EQ(f.Error({"--name"}), "--name: needs a value, TEXT");
  EXPECT_EQ(f.Error({"--masters=a:1,b:0"}), "--masters=a:1,b:0: port 0 cannot be connected to");
  EXPECT_EQ(f.Error({"--memory-verify=maybe"}), "--memory-verify=maybe: expected true or false");
  EXPECT_THAT(f.Error({"--no-name"}), HasSubstr("unknown flag"));
  EXPECT_EQ(f.Error({"stray"}), "\"stray\": unexpected argument; see moonpool-test --help");
  EXPECT_EQ(f.Error({"--config=/nonexistent/x.toml"}), "/nonexistent/x.toml: cannot be read");
  EXPECT_EQ(f.Error({"--config=/"}), "/: cannot be read");
  EXPECT_EQ(f.Error({"--config="}), "--config: the name is empty; is a shell variable unset?");
  EXPECT_EQ(f.Error({"--config", ""}), "--config: the name is empty; is a shell variable unset?");
}

TEST(Config, PositionalsInOrder) {
  std::string key;
  std::string file = "-";
  std::vector<std::string> rest;
  ConfigTable table({.program = "moonpool get", .summary = "S.", .version = "1"});
  table.Positional("KEY", &key, "What to get.");
  table.OptionalPositional("FILE", &file, "Where to.");
  table.RestPositional("MORE", &rest, "More.");
  EXPECT_EQ(table.Parse({}).status().message(),
            "KEY is missing: What to get. See moonpool get --help");
  ASSERT_THAT(table.Parse({"k"}), IsOk());
  EXPECT_EQ(key, "k");
  EXPECT_EQ(file, "-");
  ASSERT_THAT(table.Parse({"--", "--k", "-", "a", "b"}), IsOk());
  EXPECT_EQ(key, "--k");
  EXPECT_EQ(file, "-");
  EXPECT_THAT(rest, ElementsAre("a", "b"));
  EXPECT_THAT(table.Help(), HasSubstr("Usage: moonpool get KEY [FILE] [MORE ...]\n"));
}

TEST(Config, HelpGroupsOptionsWithDefaultAndRange) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const auto outcome, f.table.Parse({"--help", "--config=/nonexistent"}));
  EXPECT_TRUE(outcome.should_exit);
  EXPECT_THAT(outcome.output, HasSubstr("moonpool-test: Tests things.\n"));
  EXPECT_THAT(outcome.output, HasSubstr("Examples:\n  moonpool-test --name x\n      Be x.\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\nData plane:\n  --data-listen HOST:PORT         Where"));
  EXPECT_THAT(outcome.output, HasSubstr("Pollers. [default 2; 1..64 threads]"));
  EXPECT_THAT(outcome.output, HasSubstr("--memory-policy lru|s3fifo"));
  EXPECT_THAT(outcome.output, HasSubstr("Who goes first. [default lru]"));
  EXPECT_THAT(outcome.output,
              HasSubstr("  --memory-verify[=false]         Check every byte. [default true]\n"));
  EXPECT_THAT(outcome.output, HasSubstr("true or false: --flag, --flag=false or --no-flag"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("hunter2")));
}

TEST(Config, PrintedConfigReadsBackToTheSameSettings) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(
      const auto outcome,
      f.table.Parse({"--name=a \"quoted\"\n\\name", "--masters=a:1,b:2", "--memory-dram=1536MiB",
                     "--memory-watermark=0.3333333333333333", "--heartbeat-interval=1.5s",
                     "--no-memory-verify", "--print-config"}));
  ASSERT_TRUE(outcome.should_exit);
  Fixture g;
  ASSERT_THAT(g.table.ApplyToml(outcome.output, "printed"), IsOk()) << outcome.output;
  EXPECT_EQ(g.options.name, "a \"quoted\"\n\\name");
  EXPECT_EQ(g.table.ChangedSettings(), f.table.ChangedSettings());
  EXPECT_THAT(outcome.output, Not(HasSubstr("hunter2")));
}

TEST(Config, SecretsAreRedactedEverywhere) {
  Fixture f;
  ASSERT_THAT(f.table.Parse({"--auth-token", "xyzzy"}), IsOk());
  EXPECT_THAT(f.table.ChangedSettings(), ElementsAre(Pair("auth.token", "<redacted>")));
  EXPECT_THAT(f.table.Toml(), Not(HasSubstr("xyzzy")));
  EXPECT_THAT(f.table.DocsMarkdown(), Not(HasSubstr("hunter2")));
}

TEST(Config, DocsHaveOneRowPerSetting) {
  Fixture f;
  const std::string docs = f.table.DocsMarkdown();
  EXPECT_THAT(docs, HasSubstr("### moonpool-test\n"));
  EXPECT_THAT(docs, HasSubstr("| `memory.dram` | `--memory-dram` | `1GiB` | 1MiB..1TiB | Memory to "
                              "lend. |\n"));
}

TEST(Config, PeersAreNotNoneUnlessThatIsTheDefault) {
  std::vector<std::string> masters = {"a:1"};
  std::vector<std::string> mirrors;
  ConfigTable table({.program = "p", .summary = "S.", .version = "v"});
  table.PeerAddresses("master", &masters, "M.");
  table.PeerAddresses("mirror", &mirrors, "M.");
  EXPECT_THAT(table.ApplyToml("mirror = []", "t.toml"), IsOk());
  EXPECT_EQ(table.ApplyToml("master = []", "t.toml").message(),
            "t.toml:1: master = []: expected at least one");
  EXPECT_FALSE(table.Parse({"--master="}).ok());
  EXPECT_THAT(masters, ElementsAre("a:1"));
}

TEST(Config, VersionIsNameAndNumber) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const auto outcome, f.table.Parse({"--version"}));
  EXPECT_EQ(outcome.output, "moonpool-test 1.2.3\n");
}

TEST(Suggest, NearestWordOrNone) {
  const std::vector<std::string> words = {"data.listen", "memory.dram"};
  EXPECT_EQ(NearestWord("data.lisen", words), "data.listen");
  EXPECT_EQ(NearestWord("dram", words), "memory.dram");
  EXPECT_EQ(NearestWord("policy", words), "");
  EXPECT_EQ(NearestWord(std::string(10000, 'a'), words), "");
}

TEST(HostPort, Spellings) {
  EXPECT_EQ(*ParseHostPort("10.0.0.1:7400"), (HostPort{"10.0.0.1", 7400}));
  EXPECT_EQ(*ParseHostPort("[::1]:0"), (HostPort{"::1", 0}));
  EXPECT_EQ(ParseHostPort("[::1]:7")->ToString(), "[::1]:7");
  for (const char* text : {"", "a", ":1", "a:", "a:65536", "a:-1", "a:+1", "::1:7", "[]:1", "a b:1",
                           "a:1:2", "[a:1", "a:99999999999999999999"}) {
    EXPECT_THAT(ParseHostPort(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace moonpool
