// Masters that are killed, and what the next one still knows.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSize = 4096;

class MasterDeath : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = Pool::Start({.nodes = 2,
                         .dram_bytes = uint64_t{64} << 20,
                         .master_args = {"--meta-dir", dir_.File("meta")}});
    ASSERT_NE(pool_, nullptr);
  }
  dev::DevCluster& cluster() { return pool_->cluster(); }
  void KillMaster() {
    cluster().master().process->Signal(SIGKILL);
    ASSERT_TRUE(cluster().master().process->WaitForExit(kPatience));
  }
  static absl::Status Put(Client& client, const std::string& key) {
    return client.Put(key, ContentOf(key, kSize), {.replicas = 2});
  }
  // Until the client has found the new master.
  static absl::Status Get(Client& client, const std::string& key) {
    std::vector<std::byte> buffer(kSize);
    absl::Status got;
    EXPECT_TRUE(Eventually([&] {
      got = client.Get(key, absl::MakeSpan(buffer)).status();
      return got.ok() || absl::IsNotFound(got);
    })) << Describe(got);
    if (got.ok()) {
      EXPECT_TRUE(HoldsContentOf(key, buffer)) << key;
    }
    return got;
  }

  const TempDir dir_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(MasterDeath, FingerprintsAndRemovalsHoldForTheNextOne) {
  {
    const auto client = pool_->Connect({.name_space = "models", .fingerprint = "f1"});
    ASSERT_NE(client, nullptr);
    ASSERT_THAT(Put(*client, "kept"), IsOk());
    ASSERT_THAT(Put(*client, "removed"), IsOk());
    ASSERT_THAT(client->Remove({"removed"})[0], IsOk());
  }
  KillMaster();
  ASSERT_THAT(cluster().RestartMaster(), IsOk());
  ASSERT_THAT(cluster().WaitForNodes(2), IsOk());
  const auto other =
      Client::Connect({.masters = {pool_->master()}, .name_space = "models", .fingerprint = "f2"});
  EXPECT_THAT(other,
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  const auto client = pool_->Connect({.name_space = "models", .fingerprint = "f1"});
  ASSERT_NE(client, nullptr);
  EXPECT_THAT(Get(*client, "kept"), IsOk());
  EXPECT_THAT(Get(*client, "removed"), StatusIs(absl::StatusCode::kNotFound));
}

// The master that confirms the removal has not met one of the holders, and neither that one nor the
// next master may bring the key back.
TEST_F(MasterDeath, AHolderThatWasNotThereToBeAskedBringsNothingBack) {
  const auto client = pool_->Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_THAT(Put(*client, "kept"), IsOk());
  ASSERT_THAT(Put(*client, "removed"), IsOk());
  dev::ChildProcess& holder = *cluster().node(1).process;
  holder.Signal(SIGSTOP);
  KillMaster();
  ASSERT_THAT(cluster().RestartMaster(), IsOk());
  ASSERT_THAT(cluster().WaitForNodes(1), IsOk());
  ASSERT_TRUE(Eventually([&] { return client->Remove({"removed"})[0].ok(); }));
  KillMaster();
  holder.Signal(SIGCONT);
  ASSERT_THAT(cluster().RestartMaster(), IsOk());
  ASSERT_THAT(cluster().WaitForNodes(2), IsOk());
  EXPECT_THAT(Get(*client, "removed"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Get(*client, "kept"), IsOk());
  const nlohmann::json objects = pool_->Cli({"objects", "--json"}).Json();
  EXPECT_EQ(objects.dump().find("removed"), std::string::npos) << objects;
}

TEST_F(MasterDeath, ASecondMasterOfTheSameFolderSaysSo) {
  auto second = dev::ChildProcess::Start({.name = "second",
                                          .program = ProgramDir() + "/moonpool-master",
                                          .args = {"--listen", "127.0.0.1:0", "--http-listen",
                                                   "127.0.0.1:0", "--meta-dir", dir_.File("meta")},
                                          .log_path = dir_.File("second.log")});
  ASSERT_THAT(second, IsOk());
  ASSERT_TRUE((*second)->WaitForExit(kPatience));
  EXPECT_THAT(ReadFile(dir_.File("second.log")), HasSubstr("stop the other master"));
}

}  // namespace
}  // namespace moonpool::e2e
