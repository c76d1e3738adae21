// `moonpool drain`: a node is emptied while it is read, and can then be stopped for good.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using ::testing::HasSubstr;

constexpr int kObjects = 200;
constexpr size_t kSize = 20'000;
constexpr char kDrained[] = "node-1";
constexpr size_t kDrainedIndex = 1;

class Drain : public testing::Test {
 protected:
  void SetUp() override {
    // A young master copies nothing until it would have lost a node that does not come.
    pool_ = Pool::Start(
        {.nodes = 3,
         .dram_bytes = uint64_t{64} << 20,
         .master_args = {"--meta-dir", dir_.File("meta"), "--node-loss-timeout", "1s"}});
    ASSERT_NE(pool_, nullptr);
    client_ = pool_->Connect();
    ASSERT_NE(client_, nullptr);
    for (int i = 0; i < kObjects; ++i) {
      const std::string key = KeyOf(i);
      ASSERT_THAT(client_->Put(key, ContentOf(key, kSize)), IsOk());
    }
    ASSERT_GT(Node().at("parts"), 0) << "nothing is to move";
  }

  static std::string KeyOf(int i) { return absl::StrCat("object/", i); }

  nlohmann::json Node() const {
    const nlohmann::json list = pool_->Cli({"nodes", "--json"}).Json();
    for (const nlohmann::json& node : list.at("nodes")) {
      if (node.at("name") == kDrained) return node;
    }
    ADD_FAILURE() << "no " << kDrained << " in " << list;
    return {};
  }
  CliResult DrainAndWait() const {
    CliResult drained;
    // The next master knows the name again when the node has come to it.
    EXPECT_TRUE(Eventually([&] {
      drained = pool_->Cli({"drain", kDrained, "--wait", "--longest", "60s", "--json"});
      return drained.exit_code == 0;
    })) << drained.err;
    return drained;
  }
  // Each object, by a client that knows nothing and one that knows where it was.
  void ExpectAllReadable() {
    const auto fresh = pool_->Connect();
    ASSERT_NE(fresh, nullptr);
    for (Client* const client : {fresh.get(), client_.get()}) {
      for (int i = 0; i < kObjects; ++i) {
        std::vector<std::byte> buffer(kSize);
        const std::string key = KeyOf(i);
        ASSERT_THAT(client->Get(key, absl::MakeSpan(buffer)), IsOk()) << key;
        ASSERT_TRUE(HoldsContentOf(key, buffer)) << key;
      }
    }
  }
  void KillDrained() {
    dev::ChildProcess& process = *pool_->cluster().node(kDrainedIndex).process;
    process.Signal(SIGKILL);
    ASSERT_TRUE(process.WaitForExit(kPatience));
  }
  void RestartMaster() {
    pool_->cluster().master().process->Signal(SIGKILL);
    ASSERT_TRUE(pool_->cluster().master().process->WaitForExit(kPatience));
    ASSERT_THAT(pool_->cluster().RestartMaster(), IsOk());
    ASSERT_THAT(pool_->cluster().WaitForNodes(3), IsOk());
  }

  const TempDir dir_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Client> client_;
};

TEST_F(Drain, TheNodeIsEmptyAndNothingIsLostWithIt) {
  const CliResult drained = DrainAndWait();
  EXPECT_EQ(drained.Json().at("drain").at("done"), true) << drained.out;
  EXPECT_GT(drained.Json().at("drain").at("moved_objects"), 0) << drained.out;
  EXPECT_EQ(Node().at("parts"), 0);
  EXPECT_THAT(pool_->Cli({"nodes"}).out, HasSubstr("drained"));
  ExpectAllReadable();
  for (int i = 0; i < kObjects; ++i) {
    const std::string key = absl::StrCat("later/", i);
    ASSERT_THAT(client_->Put(key, ContentOf(key, kSize)), IsOk());
  }
  EXPECT_EQ(Node().at("parts"), 0) << "it was given something";
  KillDrained();
  ExpectAllReadable();
}

TEST_F(Drain, TheNextMasterGoesOnWithIt) {
  ASSERT_EQ(pool_->Cli({"drain", kDrained}).exit_code, 0);
  RestartMaster();
  EXPECT_TRUE(Node().contains("drain")) << "the drain is forgotten";
  EXPECT_TRUE(Eventually([&] { return Node().at("parts") == 0; })) << Node();
  ExpectAllReadable();
}

TEST_F(Drain, CalledOffItTakesObjectsAgainUnderTheNextMasterToo) {
  DrainAndWait();
  const CliResult cancelled = pool_->Cli({"drain", kDrained, "--cancel"});
  ASSERT_EQ(cancelled.exit_code, 0) << cancelled.err;
  EXPECT_THAT(cancelled.out, HasSubstr("takes objects again"));
  RestartMaster();
  EXPECT_FALSE(Node().contains("drain")) << Node();
  int puts = 0;
  EXPECT_TRUE(Eventually([&] {
    const std::string key = absl::StrCat("later/", puts++);
    return client_->Put(key, ContentOf(key, kSize)).ok() && Node().at("parts") > 0;
  })) << "nothing was placed there in "
      << puts << " puts";
}

TEST_F(Drain, ANameThatNobodyKnowsIsAnError) {
  const CliResult unknown = pool_->Cli({"drain", "node-9"});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("node-9"));
}

}  // namespace
}  // namespace moonpool::e2e
