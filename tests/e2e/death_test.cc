// Processes that are killed in the middle of things.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "cli/master_link/master_link.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

constexpr size_t kLarge = size_t{16} << 20;

dev::DevClusterOptions Impatient(size_t nodes, uint64_t dram_bytes) {
  return {.nodes = nodes,
          .dram_bytes = dram_bytes,
          .master_args = {"--grant-max", "1s", "--node-loss-timeout", "300ms"}};
}

class ClientDeath : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    pool_ = Pool::Start(Impatient(1, uint64_t{256} << 20));
    ASSERT_NE(pool_, nullptr);
    client_ = pool_->Connect();
  }

  // Runs a putter and kills it while it holds a grant. True: the grant outlived it, so that it was
  // killed in the middle of a put.
  bool KillInPut(const std::string& prefix) {
    auto putter = dev::ChildProcess::Start(
        {.name = "putter",
         .program = ProgramDir() + "/e2e-putter",
         .args = {pool_->master(), prefix, absl::StrCat(kLarge), GetParam()},
         .log_path = dir_.File("putter.log")});
    EXPECT_THAT(putter, IsOk());
    EXPECT_THAT((*putter)->WaitForLine("putting 1", kPatience, -1), IsOk());
    cli::MasterLink link({pool_->master()}, kPatience);
    const auto open_grants = [&] { return link.GetStatus().value().open_grants(); };
    while (open_grants() == 0 && (*putter)->running()) {
    }
    (*putter)->Signal(SIGKILL);
    EXPECT_TRUE((*putter)->WaitForExit(kPatience));
    return open_grants() > 0;
  }

  void ExpectRightBytes(const std::string& key) {
    const auto got = client_->Get(key, absl::MakeSpan(buffer_));
    ASSERT_TRUE(got.ok()) << Describe(got.status());
    EXPECT_EQ(*got, kLarge);
    EXPECT_TRUE(HoldsContentOf(key, buffer_)) << key;
  }

  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Client> client_;
  const TempDir dir_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kLarge);
};

// Whatever the client was doing: the key is readable and right, or somebody else can put it.
TEST_P(ClientDeath, LeavesNoKeyStuck) {
  int in_put = 0;
  for (int round = 0; round < 20 && in_put < 2; ++round) {
    const std::string prefix = absl::StrCat("round-", round, "/");
    in_put += KillInPut(prefix) ? 1 : 0;
    std::vector<std::string> keys = {prefix + "0"};
    while (client_->Exists({keys.back()})[0].ok()) {
      ExpectRightBytes(keys.back());
      keys.push_back(absl::StrCat(prefix, keys.size()));
    }
    const std::string& cut_off = keys.back();
    const absl::Status put =
        client_->Put(cut_off, ContentOf(cut_off, kLarge), {.wait_for_writer = true});
    EXPECT_TRUE(put.ok() || absl::IsAlreadyExists(put)) << Describe(put);
    ExpectRightBytes(cut_off);
    for (const absl::Status& removed : client_->Remove(keys)) EXPECT_THAT(removed, IsOk());
  }
  EXPECT_GT(in_put, 0) << "no client was killed in the middle of a put";
  EXPECT_TRUE(Eventually([&] { return pool_->Status()["open_grants"] == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Paths, ClientDeath, testing::Values("auto", "tcp"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(ClientRestart, ANewClientFindsWhatTheLastOneStored) {
  const auto pool = Pool::Start(Impatient(1, uint64_t{64} << 20));
  ASSERT_NE(pool, nullptr);
  for (int life = 0; life < 3; ++life) {
    const auto client = pool->Connect();
    for (int i = 0; i < life; ++i) {
      const std::string key = absl::StrCat("life-", i);
      std::vector<std::byte> buffer(4096);
      ASSERT_THAT(client->Get(key, absl::MakeSpan(buffer)), IsOk());
      EXPECT_TRUE(HoldsContentOf(key, buffer));
    }
    const std::string key = absl::StrCat("life-", life);
    ASSERT_THAT(client->Put(key, ContentOf(key, 4096)), IsOk());
  }
}

TEST(NodeDeath, IsAMissWithAReasonAndPutsGoOnElsewhere) {
  const auto pool = Pool::Start(Impatient(2, uint64_t{64} << 20));
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect();
  constexpr int kObjects = 40;
  for (int i = 0; i < kObjects; ++i) {
    const std::string key = absl::StrCat("k", i);
    ASSERT_THAT(client->Put(key, ContentOf(key, 65536)), IsOk());
  }
  dev::ChildProcess& victim = *pool->cluster().node(0).process;
  victim.Signal(SIGKILL);
  ASSERT_TRUE(victim.WaitForExit(kPatience));
  ASSERT_TRUE(Eventually([&] { return pool->Status()["nodes_up"] == 1; }));

  int hits = 0;
  int lost = 0;
  std::vector<std::byte> buffer(65536);
  for (int i = 0; i < kObjects; ++i) {
    const std::string key = absl::StrCat("k", i);
    absl::StatusOr<size_t> got;
    // Until the master has given the node up, its objects may come back: the get waits.
    ASSERT_TRUE(Eventually([&] {
      got = client->Get(key, absl::MakeSpan(buffer), {.call = {.timeout = absl::Seconds(5)}});
      return got.ok() || absl::IsNotFound(got.status());
    })) << Describe(got.status());
    if (got.ok()) {
      EXPECT_TRUE(HoldsContentOf(key, buffer)) << key;
      ++hits;
    } else {
      EXPECT_EQ(ReasonOf(got.status()), ErrorReason::kNodeLost) << Describe(got.status());
      ++lost;
    }
  }
  EXPECT_GT(hits, 0);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(pool->Cli({"why", "k0", "--json"}).exit_code, 0);
  for (int i = 0; i < kObjects; ++i) {
    const std::string key = absl::StrCat("after", i);
    ASSERT_THAT(client->Put(key, ContentOf(key, 65536)), IsOk());
  }

  ASSERT_THAT(pool->cluster().RestartNode(0), IsOk());
  ASSERT_THAT(pool->cluster().WaitForNodes(2), IsOk());
  const std::string key = "back";
  ASSERT_THAT(client->Put(key, ContentOf(key, 65536), {.replicas = 2}), IsOk());
  ASSERT_THAT(client->Get(key, absl::MakeSpan(buffer)), IsOk());
  EXPECT_TRUE(HoldsContentOf(key, buffer));
}

TEST(NodeDeath, AReplicaOnAnotherNodeServesOn) {
  const auto pool = Pool::Start(Impatient(2, uint64_t{64} << 20));
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect();
  for (int i = 0; i < 10; ++i) {
    const std::string key = absl::StrCat("r", i);
    ASSERT_THAT(client->Put(key, ContentOf(key, 65536), {.replicas = 2}), IsOk());
  }
  dev::ChildProcess& victim = *pool->cluster().node(1).process;
  victim.Signal(SIGKILL);
  ASSERT_TRUE(victim.WaitForExit(kPatience));
  std::vector<std::byte> buffer(65536);
  for (int i = 0; i < 10; ++i) {
    const std::string key = absl::StrCat("r", i);
    const auto got = client->Get(key, absl::MakeSpan(buffer));
    ASSERT_TRUE(got.ok()) << Describe(got.status());
    EXPECT_TRUE(HoldsContentOf(key, buffer)) << key;
  }
}

// It has no durable state: what nodes hold says which layout a namespace has.
TEST(MasterDeath, TheLayoutOfANamespaceOutlivesIt) {
  const auto pool = Pool::Start(Impatient(1, uint64_t{64} << 20));
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect({.name_space = "llama", .fingerprint = "A"});
  const auto idle = pool->Connect({.name_space = "mistral", .fingerprint = "M"});
  ASSERT_NE(client, nullptr);
  ASSERT_NE(idle, nullptr);
  ASSERT_THAT(client->Put("k", ContentOf("k", 65536)), IsOk());

  dev::ChildProcess& victim = *pool->cluster().master().process;
  victim.Signal(SIGKILL);
  ASSERT_TRUE(victim.WaitForExit(kPatience));
  ASSERT_THAT(pool->cluster().RestartMaster(), IsOk());
  ASSERT_THAT(pool->cluster().WaitForNodes(1), IsOk());

  const auto other =
      Client::Connect({.masters = {pool->master()}, .name_space = "llama", .fingerprint = "B"});
  EXPECT_EQ(ReasonOf(other.status()), ErrorReason::kFingerprintMismatch)
      << Describe(other.status());
  const auto again = pool->Connect({.name_space = "llama", .fingerprint = "A"});
  const auto any = pool->Connect({.name_space = "llama"});
  for (Client* const reader : {client.get(), again.get(), any.get()}) {
    ASSERT_NE(reader, nullptr);
    std::vector<std::byte> buffer(65536);
    ASSERT_THAT(reader->Get("k", absl::MakeSpan(buffer)), IsOk());
    EXPECT_TRUE(HoldsContentOf("k", buffer));
    EXPECT_THAT(reader->GetView("k"), IsOk());
  }
  EXPECT_THAT(client->Put("l", ContentOf("l", 65536)), IsOk());
  EXPECT_THAT(idle->Put("m", ContentOf("m", 65536)), IsOk()) << "no node brought its namespace";
}

}  // namespace
}  // namespace moonpool::e2e
