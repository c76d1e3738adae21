// Nodes whose pool outlives them: killed, stopped, damaged, and in each other's way.
#include <linux/magic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statfs.h>

#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kDram = uint64_t{128} << 20;

class WarmRestart : public testing::Test {
 protected:
  dev::DevClusterOptions Options(uint64_t dram_bytes = kDram) {
    return {.nodes = 1,
            .dram_bytes = dram_bytes,
            .node_args = {"--pool-dir", pool_dir_, "--pool-lock-wait", "10s"}};
  }

  static void Kill(Pool& pool) {
    dev::ChildProcess& node = *pool.cluster().node(0).process;
    node.Signal(SIGKILL);
    ASSERT_TRUE(node.WaitForExit(kPatience));
  }
  static void Restart(Pool& pool) {
    ASSERT_THAT(pool.cluster().RestartNode(0), IsOk());
    ASSERT_THAT(pool.cluster().WaitForNodes(1), IsOk());
  }
  // What a node that must not start says.
  std::string FailureOf(std::vector<std::string> args) {
    auto child = dev::ChildProcess::Start({.name = "node",
                                           .program = ProgramDir() + "/moonpool-node",
                                           .args = std::move(args),
                                           .log_path = dir_.path() + "/node.log"});
    EXPECT_THAT(child, IsOk());
    EXPECT_TRUE((*child)->WaitForExit(kPatience));
    EXPECT_NE((*child)->Poll().value_or(0), 0) << "it ended as if all were well";
    return ReadFile(dir_.path() + "/node.log");
  }

  const moonpool::TempDir dir_{kTmpfs};
  const std::string pool_dir_ = dir_.path() + "/pool";
};

// Puts objects of all sizes until it is told to stop, and notes which were acknowledged.
class Putter {
 public:
  Putter(const Pool& pool, int id) : client_(pool.Connect()), id_(id) {}
  void Run() {
    constexpr size_t kSizes[] = {1, 100, 4096, 20'000, 70'000};
    for (int i = 0; !stop_.load(); ++i) {
      const std::string key = absl::StrCat("putter-", id_, "/", i);
      const size_t size = kSizes[static_cast<size_t>(i) % std::size(kSizes)];
      const bool is_stored = client_->Put(key, ContentOf(key, size)).ok();
      absl::MutexLock lock(&mutex_);
      (is_stored ? stored_ : unknown_)[key] = size;
    }
  }
  void Stop() { stop_ = true; }
  size_t stored() {
    absl::MutexLock lock(&mutex_);
    return stored_.size();
  }
  // All of it, by a client that knows nothing.
  void Verify(Client& reader) {
    absl::MutexLock lock(&mutex_);
    std::vector<std::byte> buffer(70'000);
    for (const auto& [key, size] : stored_) {
      const auto got = reader.Get(key, absl::MakeSpan(buffer));
      ASSERT_THAT(got, IsOk()) << key;
      ASSERT_EQ(*got, size) << key;
      ASSERT_TRUE(HoldsContentOf(key, absl::MakeSpan(buffer).first(size))) << key;
    }
    for (const auto& [key, size] : unknown_) {
      const auto got = reader.Get(key, absl::MakeSpan(buffer));
      if (!got.ok()) continue;
      ASSERT_EQ(*got, size) << key;
      ASSERT_TRUE(HoldsContentOf(key, absl::MakeSpan(buffer).first(size))) << key;
    }
  }

 private:
  const std::unique_ptr<Client> client_;
  const int id_;
  std::atomic<bool> stop_{false};
  absl::Mutex mutex_;
  std::map<std::string, size_t> stored_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t> unknown_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(WarmRestart, AKilledNodeLosesNothingThatWasAcknowledged) {
  const auto pool = Pool::Start(Options());
  ASSERT_NE(pool, nullptr);
  std::vector<std::unique_ptr<Putter>> putters;
  std::vector<std::thread> threads;
  for (int id = 0; id < 3; ++id) {
    putters.push_back(std::make_unique<Putter>(*pool, id));
    threads.emplace_back([putter = putters.back().get()] { putter->Run(); });
  }
  const auto stored = [&] {
    size_t sum = 0;
    for (const auto& putter : putters) sum += putter->stored();
    return sum;
  };
  for (int life = 0; life < 4; ++life) {
    const size_t before = stored();
    EXPECT_TRUE(Eventually([&] { return stored() >= before + 100; })) << life;
    Kill(*pool);
    Restart(*pool);
  }
  const size_t before = stored();
  EXPECT_TRUE(Eventually([&] { return stored() >= before + 20; })) << "puts go on afterwards";
  for (const auto& putter : putters) putter->Stop();
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(pool->Status()["totals"]["evicted"].get<int>(), 0) << "the pool is too small";
  const auto reader = pool->Connect();
  for (const auto& putter : putters) putter->Verify(*reader);
}

TEST_F(WarmRestart, APoolIsTakenOverAfterAnOrderlyStopAndByAnotherMaster) {
  constexpr int kObjects = 200;
  const auto key = [](int i) { return absl::StrCat("k", i); };
  {
    const auto pool = Pool::Start(Options());
    ASSERT_NE(pool, nullptr);
    const auto client = pool->Connect();
    for (int i = 0; i < kObjects; ++i) {
      ASSERT_THAT(client->Put(key(i), ContentOf(key(i), 10'000)), IsOk());
    }
    ASSERT_THAT(client->Remove({key(7)})[0], IsOk());
  }
  {
    const auto pool = Pool::Start(Options());
    ASSERT_NE(pool, nullptr);
    const auto client = pool->Connect();
    std::vector<std::byte> buffer(10'000);
    for (int i = 0; i < kObjects; ++i) {
      const auto got = client->Get(key(i), absl::MakeSpan(buffer));
      if (i == 7) {
        EXPECT_THAT(got, StatusIs(absl::StatusCode::kNotFound));
        continue;
      }
      ASSERT_THAT(got, IsOk()) << i;
      EXPECT_TRUE(HoldsContentOf(key(i), buffer)) << i;
    }
    EXPECT_THAT(client->Put("more", ContentOf("more", 10'000)), IsOk());
  }
  // Of another size it is another pool.
  const auto pool = Pool::Start(Options(kDram / 2));
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->Status()["objects"], 0);
  EXPECT_THAT(pool->Connect()->Put("new", ContentOf("new", 10'000)), IsOk());
}

TEST_F(WarmRestart, ADamagedIndexCostsWhatIsDamaged) {
  const auto pool = Pool::Start(Options());
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect();
  constexpr int kObjects = 300;
  for (int i = 0; i < kObjects; ++i) {
    const std::string key = absl::StrCat("k", i);
    ASSERT_THAT(client->Put(key, ContentOf(key, 5000)), IsOk());
  }
  Kill(*pool);
  // In each tenth of the first 500 cells, one byte.
  constexpr int kSpoilt = 10;
  {
    std::fstream index(pool_dir_ + "/index", std::ios::in | std::ios::out | std::ios::binary);
    for (int i = 0; i < kSpoilt; ++i) {
      const auto at = static_cast<std::streamoff>((2 + 50 * i) * 64 + 20);
      index.seekg(at);
      const char byte = static_cast<char>(~index.get());
      index.seekp(at);
      index.put(byte);
    }
    ASSERT_TRUE(index.good());
  }
  Restart(*pool);
  const auto reader = pool->Connect();
  int lost = 0;
  std::vector<std::byte> buffer(5000);
  for (int i = 0; i < kObjects; ++i) {
    const std::string key = absl::StrCat("k", i);
    const auto got = reader->Get(key, absl::MakeSpan(buffer));
    if (got.ok()) {
      EXPECT_TRUE(HoldsContentOf(key, buffer)) << key;
    } else {
      EXPECT_THAT(got, StatusIs(absl::StatusCode::kNotFound));
      ++lost;
    }
  }
  EXPECT_GT(lost, 0);
  EXPECT_LE(lost, kSpoilt);
}

TEST_F(WarmRestart, TwoNodesDoNotShareAPool) {
  const auto pool = Pool::Start(Options());
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect();
  ASSERT_THAT(client->Put("a", ContentOf("a", 5000)), IsOk());
  const std::string failure =
      FailureOf({"--master", pool->master(), "--name", "second", "--dram", absl::StrCat(kDram),
                 "--pool-dir", pool_dir_, "--pool-lock-wait", "50ms"});
  EXPECT_THAT(failure, HasSubstr("has the pool in " + pool_dir_));
  EXPECT_THAT(failure, HasSubstr("--pool-dir of its own"));
  std::vector<std::byte> buffer(5000);
  EXPECT_THAT(client->Get("a", absl::MakeSpan(buffer)), IsOk());
  EXPECT_TRUE(HoldsContentOf("a", buffer));
}

// Small parts with long names fill it before their bytes fill the pool.
TEST_F(WarmRestart, AnIndexThatCannotGrowEvictsAsAFullPoolDoes) {
  constexpr uint64_t kSmall = uint64_t{4} << 20;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{.rlim_cur = kSmall, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  dev::DevClusterOptions options = Options(kSmall);
  options.master_args = {"--node-heartbeat", "50ms"};
  const auto pool = Pool::Start(options);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_NE(pool, nullptr);
  const auto client = pool->Connect();
  const std::string padding(200, '-');
  const std::vector<std::byte> value = ContentOf("value", 10);
  const auto put_some = [&](int batch) {
    std::vector<std::string> keys;
    std::vector<PutItem> items;
    for (int i = 0; i < 500; ++i) keys.push_back(absl::StrCat(padding, batch, "/", i));
    for (const std::string& key : keys)
      items.push_back({.key = key, .value = {ConstBuffer(value)}});
    int refused = 0;
    for (const absl::Status& status : client->PutMany(items)) refused += status.ok() ? 0 : 1;
    return refused;
  };
  const auto node = [&] { return pool->Cli({"nodes", "--json"}).Json()["nodes"][0]; };
  int batch = 0;
  while (!node().contains("parts_max")) {
    ASSERT_LT(batch, 60) << "the index has no bound";
    put_some(batch++);
  }
  for (int more = 0; more < 10; ++more) EXPECT_EQ(put_some(batch++), 0);
  EXPECT_GT(pool->Status()["objects"].get<int>(), 5000);
}

TEST_F(WarmRestart, WhatCannotBeKeptIsRefusedAtTheStart) {
  EXPECT_THAT(FailureOf({"--pool-dir", pool_dir_}), HasSubstr("needs a --name"));
  const TempDir disk;
  const std::string folder = disk.File("pool");
  struct statfs system {};
  ASSERT_EQ(statfs(disk.File("").c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "the temporary folder is in memory here";
  EXPECT_THAT(FailureOf({"--pool-dir", folder, "--name", "n"}), HasSubstr("is not in memory"));
}

}  // namespace
}  // namespace moonpool::e2e
