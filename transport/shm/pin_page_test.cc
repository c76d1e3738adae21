#include "transport/shm/pin_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "transport/shm/pin_file.h"

namespace moonpool::transport {
namespace {

Generation Gen(uint32_t counter) { return Generation::Of(Term{1}, counter); }

// Both ways to keep a page.
struct PinPageTest : testing::TestWithParam<bool> {
  void SetUp() override {
    node = NewPage();
    ASSERT_NE(node, nullptr);
    ASSERT_OK_AND_ASSIGN(client, PinSlots::Map(node->fd(), kSlots, kFromUs));
  }
  static bool is_file() { return GetParam(); }
  std::unique_ptr<PinPage> NewPage() const {
    auto page = is_file() ? PinFile::Create(dir.path(), kSlots) : PinPage::Create(kSlots);
    EXPECT_THAT(page, IsOk());
    return page.ok() ? *std::move(page) : nullptr;
  }
  size_t FilesThere() const {
    const std::filesystem::directory_iterator files(dir.path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  static constexpr uint32_t kSlots = 1200;  // a file of them is read in several pieces
  const FileTrust kFromUs = {.giver = geteuid()};
  const TempDir dir{kTmpfs};
  std::unique_ptr<PinPage> node;
  std::unique_ptr<PinSlots> client;
};

INSTANTIATE_TEST_SUITE_P(Kinds, PinPageTest, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "File" : "Memory");
});

TEST_P(PinPageTest, NodeSeesWhatTheClientPins) {
  ASSERT_OK_AND_ASSIGN(const uint32_t a, client->Acquire(Gen(1)));
  ASSERT_OK_AND_ASSIGN(const uint32_t b, client->Acquire(Gen(2)));
  ASSERT_OK_AND_ASSIGN(const uint32_t c, client->Acquire(Gen(1)));
  EXPECT_TRUE(node->Holds(Gen(1)) && node->Holds(Gen(2)));
  EXPECT_FALSE(node->Holds(Gen(3)));
  client->Release(a);
  EXPECT_TRUE(node->Holds(Gen(1))) << "pinned twice";
  client->Release(c);
  EXPECT_FALSE(node->Holds(Gen(1)));
  EXPECT_TRUE(node->Holds(Gen(2)));
  client->Release(b);
}

TEST_P(PinPageTest, EverySlotIsUsedThenRefusedThenUsedAgain) {
  std::vector<uint32_t> slots;
  for (uint32_t i = 1; i <= kSlots; ++i) {
    ASSERT_OK_AND_ASSIGN(const uint32_t slot, client->Acquire(Gen(i)));
    slots.push_back(slot);
  }
  EXPECT_THAT(client->Acquire(Gen(999)),
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  for (uint32_t i = 1; i <= kSlots; ++i) EXPECT_TRUE(node->Holds(Gen(i)));
  for (const uint32_t slot : slots) client->Release(slot);
  for (uint32_t i = 1; i <= kSlots; ++i) EXPECT_FALSE(node->Holds(Gen(i)));
  EXPECT_THAT(client->Acquire(Gen(999)), IsOk());
}

TEST_P(PinPageTest, AForkedChildLeavesTheParentsPinsAlone) {
  ASSERT_OK_AND_ASSIGN(const uint32_t slot, client->Acquire(Gen(1)));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    client->Release(slot);
    const bool is_fenced = client->is_closed() && !client->Acquire(Gen(2)).ok();
    _exit(is_fenced ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  EXPECT_TRUE(node->Holds(Gen(1)));
  EXPECT_FALSE(client->is_closed());
  client->Release(slot);
  EXPECT_FALSE(node->Holds(Gen(1)));
}

TEST_P(PinPageTest, ClientCannotShrinkThePageUnderTheNode) {
  ASSERT_OK_AND_ASSIGN(const uint32_t slot, client->Acquire(Gen(1)));
  if (!is_file()) {
    EXPECT_NE(ftruncate(node->fd(), 0), 0);
    EXPECT_NE(ftruncate(node->fd(), 1 << 20), 0);
    EXPECT_TRUE(node->Holds(Gen(1)));
    client->Release(slot);
    return;
  }
  // A file it can, and loses its pins.
  for (const off_t bytes : {1 << 20, 64 + 8, 64, 63, 8, 0}) {
    ASSERT_EQ(ftruncate(node->fd(), bytes), 0);
    EXPECT_EQ(node->Holds(Gen(1)), bytes >= 64 + 8) << bytes;
    EXPECT_FALSE(node->Holds(Gen(2)));
  }
  node->Close();
  EXPECT_FALSE(node->Holds(Gen(1)));
}

// Where the page is read in pieces, and up to where it is used.
TEST_P(PinPageTest, APinIsSeenInWhateverSlot) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    ASSERT_OK_AND_ASSIGN(const uint32_t slot, client->Acquire(Gen(i + 1)));
    ASSERT_EQ(slot, i);
    ASSERT_TRUE(node->Holds(Gen(i + 1))) << i;
  }
  EXPECT_FALSE(node->Holds(Gen(kSlots + 1)));
}

TEST_P(PinPageTest, TheFileIsRemovedWithItsConnectionUnlessTheNextLifeIsToFindIt) {
  EXPECT_EQ(FilesThere(), is_file() ? 1u : 0u);
  auto other = NewPage();
  EXPECT_EQ(FilesThere(), is_file() ? 2u : 0u);
  other.reset();
  EXPECT_EQ(FilesThere(), is_file() ? 1u : 0u);
  node->LeaveToNextLife();
  node.reset();
  EXPECT_EQ(FilesThere(), is_file() ? 1u : 0u);
}

TEST_P(PinPageTest, ScribblingClientCannotLeadTheNodeOutOfThePage) {
  void* page =
      mmap(nullptr, PinPageBytes(kSlots), PROT_READ | PROT_WRITE, MAP_SHARED, node->fd(), 0);
  ASSERT_NE(page, MAP_FAILED);
  std::memset(page, 0xff, PinPageBytes(kSlots));
  EXPECT_FALSE(node->Holds(Gen(1)));
  munmap(page, PinPageBytes(kSlots));
}

TEST_P(PinPageTest, CloseIsSeenByTheClient) {
  EXPECT_FALSE(client->is_closed());
  node->Close();
  EXPECT_TRUE(client->is_closed());
}

TEST_P(PinPageTest, WrongPagesAreRefused) {
  const UniqueFd short_file(memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(short_file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(PinSlots::Map(short_file.get(), kSlots).ok());
  ASSERT_EQ(ftruncate(short_file.get(), 1 << 20), 0);
  EXPECT_FALSE(PinSlots::Map(short_file.get(), kSlots).ok());
  EXPECT_TRUE(PinSlots::Map(node->fd(), kSlots, kFromUs).ok());
  EXPECT_FALSE(PinSlots::Map(node->fd(), kSlots + 1, kFromUs).ok());
  EXPECT_FALSE(PinSlots::Map(node->fd(), 0, kFromUs).ok());
  EXPECT_FALSE(PinSlots::Map(node->fd(), UINT32_MAX, kFromUs).ok());
}

TEST_P(PinPageTest, ThreadsNeverShareASlot) {
  std::vector<std::atomic<int>> holders(kSlots);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 20'000; ++i) {
        const auto slot = client->Acquire(Gen(t + 1));
        ASSERT_TRUE(slot.ok());
        ASSERT_EQ(holders[*slot].fetch_add(1), 0);
        holders[*slot].fetch_sub(1);
        client->Release(*slot);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t t = 0; t < 4; ++t) EXPECT_FALSE(node->Holds(Gen(t + 1)));
}

TEST(PinFileTest, TheFolderIsOnTmpfsAndNobodyElseMayWriteIt) {
  const TempDir dir{kTmpfs};
  const std::string pins = dir.path() + "/pins";
  EXPECT_THAT(PreparePinsFolder(pins), IsOk());
  EXPECT_THAT(PreparePinsFolder(pins), IsOk());
  const auto is_refused = Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  ASSERT_EQ(chmod(pins.c_str(), 0770), 0);
  EXPECT_THAT(PreparePinsFolder(pins), is_refused);
  ASSERT_EQ(chmod(pins.c_str(), 0700), 0);
  const std::string link = dir.path() + "/link";
  ASSERT_EQ(symlink(pins.c_str(), link.c_str()), 0);
  EXPECT_THAT(PreparePinsFolder(link), is_refused);
  EXPECT_THAT(PreparePinsFolder(dir.path() + "/no/folder"), is_refused);
  EXPECT_THAT(PreparePinsFolder("/proc/self"), is_refused);
}

TEST(PinFileTest, NoPageWithoutItsFolder) {
  const TempDir dir{kTmpfs};
  const absl::Status failed = PinFile::Create(dir.path() + "/gone", 10).status();
  EXPECT_THAT(failed, Fails(absl::StatusCode::kUnavailable, ErrorReason::kLimitReached));
  EXPECT_FALSE(DetailOf(failed)->hint.empty());
}

}  // namespace
}  // namespace moonpool::transport
