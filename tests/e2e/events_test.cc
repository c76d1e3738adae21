// Events of a real pool: on the command line, and followed through the death of a master.
#include <signal.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/dev_cluster/child_process.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "moonpool/events.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Events : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = Pool::Start({.nodes = 1, .dram_bytes = uint64_t{64} << 20});
    ASSERT_NE(pool_, nullptr);
    client_ = pool_->Connect();
    ASSERT_NE(client_, nullptr);
  }
  void Put(const std::string& key, const std::string& parent = "") {
    const std::string value(100, 'v');
    ASSERT_THAT(client_->Put({.key = key,
                              .value = {absl::MakeConstSpan(
                                  reinterpret_cast<const std::byte*>(value.data()), value.size())},
                              .parent = parent}),
                IsOk());
  }

  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Client> client_;
};

// What is stored, by events alone.
struct Known {
  std::set<std::string> stored;
  std::vector<EventReset> resets;
  std::vector<ErrorReason> reasons;  // of removals

  void Take(const EventBatch& batch) {
    if (batch.reset != EventReset::kNone) resets.push_back(batch.reset);
    for (const Event& event : batch.events) {
      if (event.kind == EventKind::kCleared) stored.clear();
      if (event.kind == EventKind::kStored) stored.insert(event.key);
      if (event.kind == EventKind::kRemoved) {
        stored.erase(event.key);
        reasons.push_back(event.reason);
      }
    }
  }
  // Follows until exactly these are.
  void Await(EventStream& stream, const std::set<std::string>& keys) {
    EXPECT_THAT(stream.Run([&](const EventBatch& batch) {
      Take(batch);
      return !batch.is_whole || stored != keys;
    }),
                IsOk());
  }
};

TEST_F(Events, TheCommandLineShowsWhatIsStored) {
  Put("root");
  Put("leaf", "root");
  const CliResult text = pool_->Cli({"events"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("stored  root  100 B  node-0/dram\n"));
  EXPECT_THAT(text.out, HasSubstr("stored  leaf  100 B  node-0/dram  after root\n"));
  const CliResult json = pool_->Cli({"events", "--json", "--all-namespaces"});
  std::vector<std::string> kinds;
  std::vector<std::string> keys;
  for (const absl::string_view line : absl::StrSplit(json.out, '\n', absl::SkipEmpty())) {
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    ASSERT_FALSE(event.is_discarded()) << line;
    kinds.push_back(event["kind"]);
    if (event.contains("key")) keys.push_back(event["key"]);
  }
  EXPECT_THAT(kinds, ElementsAre("cleared", "stored", "stored"));
  EXPECT_THAT(keys, ElementsAre("root", "leaf"));
}

TEST_F(Events, WithoutAMasterTheCommandSaysSo) {
  const CliResult none = RunCli({"--master", "127.0.0.1:1", "--timeout", "100ms", "events"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("no master answers"));
}

// A command of moonpool that waits; what it says on stderr comes as lines, too.
std::unique_ptr<dev::ChildProcess> StartWaiting(const std::string& command) {
  auto started = dev::ChildProcess::Start(
      {.name = "moonpool",
       .program = "/bin/sh",
       .args = {"-c", absl::StrCat("exec ", ProgramDir(), "/moonpool ", command, " 2>&1")},
       .log_path = {}});
  EXPECT_THAT(started, IsOk());
  return *std::move(started);
}
constexpr char kFreePorts[] = " --endpoint tcp://127.0.0.1:0 --replay-endpoint tcp://127.0.0.1:0";

TEST_F(Events, OfANamespaceThatNobodyOpenedAreAnError) {
  const CliResult unknown = pool_->Cli({"--namespace", "mistyped", "events"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NAMESPACE_UNKNOWN"));
}

TEST_F(Events, WhoWaitsForThoseOfAnUnknownNamespaceIsTold) {
  for (const std::string& command :
       {std::string("events --follow"), absl::StrCat("kv-events", kFreePorts)}) {
    const auto waits =
        StartWaiting(absl::StrCat("--master ", pool_->master(), " --namespace mistyped ", command));
    EXPECT_THAT(waits->WaitForLine("moonpool: warning: no namespace \"mistyped\"", kPatience, -1),
                IsOk());
  }
}

TEST_F(Events, KvEventsSayThatNoMasterAnswers) {
  const auto waits =
      StartWaiting(absl::StrCat("--master 127.0.0.1:1 --timeout 100ms kv-events", kFreePorts));
  EXPECT_THAT(waits->WaitForLine("ready: ", kPatience, -1), IsOk());
  EXPECT_THAT(
      waits->WaitForLine("moonpool: warning: no master answers at 127.0.0.1:1", kPatience, -1),
      IsOk());
}

TEST_F(Events, AreFollowedThroughTheDeathOfAMaster) {
  const auto opened = EventStream::Open({.masters = {pool_->master()}});
  ASSERT_THAT(opened, IsOk());
  EventStream& stream = **opened;
  Known known;
  known.Await(stream, {});
  Put("a");
  Put("b");
  known.Await(stream, {"a", "b"});
  ASSERT_THAT(client_->Remove({"a"})[0], IsOk());
  known.Await(stream, {"b"});
  EXPECT_THAT(known.reasons, ElementsAre(ErrorReason::kRemoved));

  dev::DevCluster& cluster = pool_->cluster();
  cluster.master().process->Signal(SIGKILL);
  ASSERT_TRUE(cluster.master().process->WaitForExit(kPatience));
  ASSERT_THAT(cluster.RestartMaster(), IsOk());
  ASSERT_THAT(cluster.WaitForNodes(1), IsOk());
  Put("c");
  known.Await(stream, {"b", "c"});
  EXPECT_THAT(known.resets, ElementsAre(EventReset::kStart, EventReset::kOtherLog));
}

TEST_F(Events, AnotherStreamGoesOnFromAToken) {
  Known known;
  std::optional<EventToken> token;
  {
    const auto first = EventStream::Open({.masters = {pool_->master()}});
    ASSERT_THAT(first, IsOk());
    known.Await(**first, {});
    token = (*first)->token();
  }
  ASSERT_TRUE(token.has_value());
  Put("a");
  const auto second = EventStream::Open({.masters = {pool_->master()}, .resume = token});
  ASSERT_THAT(second, IsOk());
  known.Await(**second, {"a"});
  EXPECT_THAT(known.resets, ElementsAre(EventReset::kStart));
}

}  // namespace
}  // namespace moonpool::e2e
