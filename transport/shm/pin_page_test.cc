#include "transport/shm/pin_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "common/testing/status_matchers.h"

namespace moonpool::transport {
namespace {

Generation Gen(uint32_t counter) { return Generation::Of(Term{1}, counter); }

struct PinPageTest : testing::Test {
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(node, PinPage::Create(kSlots));
    ASSERT_OK_AND_ASSIGN(client, PinSlots::Map(node->fd(), kSlots));
  }
  static constexpr uint32_t kSlots = 100;
  std::unique_ptr<PinPage> node;
  std::unique_ptr<PinSlots> client;
};

TEST_F(PinPageTest, NodeSeesWhatTheClientPins) {
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

TEST_F(PinPageTest, EverySlotIsUsedThenRefusedThenUsedAgain) {
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

TEST_F(PinPageTest, AForkedChildLeavesTheParentsPinsAlone) {
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

TEST_F(PinPageTest, ClientCannotShrinkThePageUnderTheNode) {
  EXPECT_NE(ftruncate(node->fd(), 0), 0);
  EXPECT_NE(ftruncate(node->fd(), 1 << 20), 0);
}

TEST_F(PinPageTest, ScribblingClientCannotLeadTheNodeOutOfThePage) {
  void* page =
      mmap(nullptr, PinPageBytes(kSlots), PROT_READ | PROT_WRITE, MAP_SHARED, node->fd(), 0);
  ASSERT_NE(page, MAP_FAILED);
  std::memset(page, 0xff, PinPageBytes(kSlots));
  EXPECT_FALSE(node->Holds(Gen(1)));
  munmap(page, PinPageBytes(kSlots));
}

TEST_F(PinPageTest, CloseIsSeenByTheClient) {
  EXPECT_FALSE(client->is_closed());
  node->Close();
  EXPECT_TRUE(client->is_closed());
}

TEST_F(PinPageTest, WrongPagesAreRefused) {
  const UniqueFd short_file(memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(short_file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(PinSlots::Map(short_file.get(), kSlots).ok());
  ASSERT_EQ(ftruncate(short_file.get(), 1 << 20), 0);
  EXPECT_FALSE(PinSlots::Map(short_file.get(), kSlots).ok());
  EXPECT_FALSE(PinSlots::Map(node->fd(), kSlots + 1).ok());
  EXPECT_FALSE(PinSlots::Map(node->fd(), 0).ok());
  EXPECT_FALSE(PinSlots::Map(node->fd(), UINT32_MAX).ok());
}

TEST_F(PinPageTest, ThreadsNeverShareASlot) {
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

}  // namespace
}  // namespace moonpool::transport
