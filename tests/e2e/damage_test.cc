// Bytes that change in a node's memory behind its back. Nobody scrubs here: readers find it.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

constexpr size_t kBytes = 100'000;  // mapped writers copy it
const std::string kKey = "k";

// The memory that a node has for its pool, as any other process of this user could change it.
class PoolMemory {
 public:
  explicit PoolMemory(pid_t node) {
    const std::string folder = absl::StrCat("/proc/", node, "/fd");
    DIR* const entries = opendir(folder.c_str());
    for (const dirent* entry; entries != nullptr && (entry = readdir(entries)) != nullptr;) {
      const std::string path = absl::StrCat(folder, "/", entry->d_name);
      char target[256] = {};
      struct stat file {};
      if (readlink(path.c_str(), target, sizeof(target) - 1) < 0 ||
          !absl::StartsWith(target, "/memfd:") || stat(path.c_str(), &file) != 0 ||
          static_cast<size_t>(file.st_size) <= size_) {
        continue;  // pages of pins are small
      }
      const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
      void* const memory = mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ | PROT_WRITE,
                                MAP_SHARED, fd.get(), 0);
      if (memory == MAP_FAILED) continue;
      Unmap();
      memory_ = static_cast<std::byte*>(memory);
      size_ = static_cast<size_t>(file.st_size);
    }
    if (entries != nullptr) closedir(entries);
    EXPECT_NE(memory_, nullptr) << "the node has no pool";
  }
  ~PoolMemory() { Unmap(); }
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  // Where these bytes are; nullptr: nowhere.
  std::byte* Find(const std::vector<std::byte>& bytes) const {
    return static_cast<std::byte*>(memmem(memory_, size_, bytes.data(), bytes.size()));
  }

 private:
  void Unmap() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }

  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};

class Damage : public testing::TestWithParam<Path> {
 protected:
  static std::unique_ptr<Pool> Start(size_t nodes) {
    return Pool::Start({.nodes = nodes,
                        .dram_bytes = uint64_t{32} << 20,
                        .node_args = {"--scrub-rate", "0", "--huge-pages", "off"}});
  }
  static std::unique_ptr<Client> Connect(const Pool& pool) {
    return pool.Connect({.path = GetParam()});
  }
  const std::vector<std::byte> content_ = ContentOf(kKey, kBytes);
};

TEST_P(Damage, IsFoundByTheFirstReaderAndTheKeyCanBePutAgain) {
  const auto pool = Start(1);
  ASSERT_NE(pool, nullptr);
  const auto client = Connect(*pool);
  const PoolMemory memory(pool->cluster().node(0).process->pid());
  for (int round = 0; round < 2; ++round) {
    ASSERT_THAT(client->Put(kKey, content_), IsOk());
    std::byte* const stored = memory.Find(content_);
    ASSERT_NE(stored, nullptr);
    stored[kBytes / 2] ^= std::byte{1};
    // Found by a reader that nobody has told anything.
    if (round == 1 && GetParam() == Path::kShm) {
      EXPECT_THAT(Connect(*pool)->GetView(kKey), StatusIs(absl::StatusCode::kNotFound));
    } else {
      EXPECT_THAT(Connect(*pool)->Get(kKey), StatusIs(absl::StatusCode::kNotFound));
    }
    EXPECT_TRUE(Eventually([&] { return absl::IsNotFound(client->Exists({{kKey}})[0]); }))
        << "readers cannot have it, and everybody else is told that it is there";
  }
  EXPECT_EQ(pool->Cli({"why", kKey, "--json"}).Json()["state"], "damaged");
}

TEST_P(Damage, IsRepairedFromAnotherReplica) {
  const auto pool = Start(2);
  ASSERT_NE(pool, nullptr);
  const auto client = Connect(*pool);
  const PoolMemory first(pool->cluster().node(0).process->pid());
  const PoolMemory second(pool->cluster().node(1).process->pid());
  ASSERT_THAT(client->Put(kKey, content_, {.replicas = 2}), IsOk());
  std::byte* const stored = first.Find(content_);
  ASSERT_NE(stored, nullptr);
  ASSERT_NE(second.Find(content_), nullptr);
  stored[kBytes - 1] ^= std::byte{1};
  // Readers choose among the replicas.
  ASSERT_TRUE(Eventually([&] {
    std::vector<std::byte> got(kBytes);
    EXPECT_THAT(client->Get(kKey, absl::MakeSpan(got)), IsOk());
    EXPECT_TRUE(HoldsContentOf(kKey, got));
    return client->stats().checksum_failures > 0;
  }));
  EXPECT_TRUE(Eventually([&] { return first.Find(content_) != nullptr; })) << "no copy was made";
}

INSTANTIATE_TEST_SUITE_P(Paths, Damage, testing::Values(Path::kTcp, Path::kShm),
                         [](const auto& path) {
                           return path.param == Path::kTcp ? "Tcp" : "SharedMemory";
                         });

}  // namespace
}  // namespace moonpool::e2e
