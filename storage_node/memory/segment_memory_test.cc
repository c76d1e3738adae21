#include "storage_node/memory/segment_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "common/map_shared.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/unique_fd.h"
#include "storage_node/memory/huge_page_maker.h"
#include "storage_node/memory/numa_binding.h"
#include "storage_node/memory/prefault.h"
#include "storage_node/memory/system_memory.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::Contains;
using ::testing::HasSubstr;

class SegmentMemoryTest : public ::testing::Test {
 protected:
  absl::StatusOr<SegmentMemory> Allocate(const SegmentMemoryOptions& options) {
    return SegmentMemory::Allocate(options, clock_, log_.logger());
  }
  SteadyClock clock_;
  TestLogger log_;
};

TEST_F(SegmentMemoryTest, TheCapacityIsExactAndTheMappingIsWholePages) {
  for (const HugePages pages : {HugePages::kAuto, HugePages::kOff}) {
    ASSERT_OK_AND_ASSIGN(const SegmentMemory memory,
                         Allocate({.capacity_bytes = 1'000'001, .huge_pages = pages}));
    EXPECT_EQ(memory.capacity_bytes(), 1'000'001u);
    EXPECT_GE(memory.mapped_bytes(), memory.capacity_bytes());
    EXPECT_EQ(memory.mapped_bytes() % memory.page_bytes(), 0u);
    struct stat info {};
    ASSERT_EQ(fstat(memory.fd(), &info), 0);
    EXPECT_EQ(static_cast<uint64_t>(info.st_size), memory.mapped_bytes());
  }
}

TEST_F(SegmentMemoryTest, PagesArePresentBeforeItIsUsed) {
  ASSERT_OK_AND_ASSIGN(const SegmentMemory memory, Allocate({.capacity_bytes = 200u << 20,
                                                             .huge_pages = HugePages::kOff,
                                                             .prefault_threads = 3}));
  std::vector<unsigned char> present(memory.mapped_bytes() / memory.page_bytes());
  ASSERT_EQ(mincore(memory.base(), memory.mapped_bytes(), present.data()), 0);
  for (const unsigned char page : present) ASSERT_EQ(page & 1, 1);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("pool memory is ready bytes=209715200")));
}

TEST_F(SegmentMemoryTest, AnotherMappingOfTheDescriptorSeesTheBytes) {
  ASSERT_OK_AND_ASSIGN(const SegmentMemory memory, Allocate({.capacity_bytes = 4096}));
  memory.base()[17] = std::byte{42};
  void* const other = mmap(nullptr, memory.mapped_bytes(), PROT_READ, MAP_SHARED, memory.fd(), 0);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(static_cast<std::byte*>(other)[17], std::byte{42});
  munmap(other, memory.mapped_bytes());
}

TEST_F(SegmentMemoryTest, NobodyWithTheDescriptorCanChangeItsSize) {
  ASSERT_OK_AND_ASSIGN(const SegmentMemory memory, Allocate({.capacity_bytes = 4096}));
  EXPECT_NE(ftruncate(memory.fd(), 0), 0);
  EXPECT_NE(ftruncate(memory.fd(), 1 << 20), 0);
}

TEST_F(SegmentMemoryTest, MovingKeepsTheAddress) {
  ASSERT_OK_AND_ASSIGN(SegmentMemory first, Allocate({.capacity_bytes = 4096}));
  std::byte* const base = first.base();
  const SegmentMemory second = std::move(first);
  EXPECT_EQ(second.base(), base);
  second.base()[0] = std::byte{1};
}

TEST_F(SegmentMemoryTest, MoreThanTheMachineHasIsRefusedWithWhatToDo) {
  const auto memory = Allocate({.capacity_bytes = uint64_t{1} << 60});
  EXPECT_THAT(memory, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Describe(memory.status()), HasSubstr("lower --dram"));
  EXPECT_THAT(Allocate({.capacity_bytes = ~uint64_t{0}}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Allocate({.capacity_bytes = 0}), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(SegmentMemoryTest, ALimitOfTheProcessIsNamed) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit low{.rlim_cur = 4096, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto memory = Allocate({.capacity_bytes = 1 << 20});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_THAT(memory, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(Describe(memory.status()), HasSubstr("ulimit -f"));
}

TEST_F(SegmentMemoryTest, ReservedHugePagesAreUsedOrTheirLackIsExplained) {
  const SystemMemory system = ReadSystemMemory();
  const auto memory = Allocate({.capacity_bytes = 1 << 20, .huge_pages = HugePages::kOn});
  if (system.free_huge_pages > 0) {
    ASSERT_THAT(memory, IsOk());
    EXPECT_EQ(memory->page_bytes(), system.huge_page_bytes);
  } else {
    EXPECT_THAT(memory, StatusIs(StatusCode::kResourceExhausted));
    EXPECT_THAT(Describe(memory.status()), HasSubstr("--huge-pages"));
  }
}

TEST_F(SegmentMemoryTest, PreparationCanBeStopped) {
  EXPECT_THAT(Allocate({.capacity_bytes = 256u << 20, .should_stop = [] { return true; }}),
              StatusIs(StatusCode::kCancelled));
}

TEST_F(SegmentMemoryTest, ANumaNodeThatIsNotThereIsAnError) {
  EXPECT_THAT(Allocate({.capacity_bytes = 4096, .numa_node = 4000}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Allocate({.capacity_bytes = 4096, .numa_node = 0}), IsOk());
}

TEST(Prefault, ReportsProgressUpToTheWholeAndKeepsTheContent) {
  constexpr uint64_t kBytes = uint64_t{640} << 20;
  void* const base =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(base, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(base);
  bytes[5] = std::byte{5};
  uint64_t done = 0;
  int reports = 0;
  PrefaultOptions options{.threads = 2};
  options.on_progress = [&](uint64_t now) {
    EXPECT_GT(now, done);
    done = now;
    ++reports;
  };
  EXPECT_THAT(Prefault({bytes, kBytes}, options), IsOk());
  EXPECT_EQ(done, kBytes);
  EXPECT_EQ(reports, 10);
  EXPECT_EQ(bytes[5], std::byte{5});
  munmap(base, kBytes);
}

TEST(Prefault, WhatCannotBeReservedEndsIt) {
  constexpr uint64_t kBytes = uint64_t{640} << 20;
  void* const base =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(base, MAP_FAILED);
  std::atomic<int> chunks = 0;
  PrefaultOptions options{.threads = 2};
  options.reserve = [&](uint64_t from, uint64_t to) {
    EXPECT_LT(from, to);
    EXPECT_LE(to, kBytes);
    ++chunks;
    return from == 0 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  EXPECT_THAT(Prefault({static_cast<std::byte*>(base), kBytes}, options),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_LT(chunks, 10);
  munmap(base, kBytes);
}

TEST(HugePageMaker, WhatLiesInSmallPagesAndWhatIsUntouchedComeIntoHugeOnes) {
  constexpr uint64_t kBytes = 4 * kHugePageBytes;
  const UniqueFd file(memfd_create("pool", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  void* const base = MapShared(file.get(), kBytes, PROT_READ | PROT_WRITE);
  ASSERT_NE(base, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(base);
  for (uint64_t at = 0; at < 2 * kHugePageBytes; at += 4096) bytes[at] = std::byte(at >> 12);

  HugePageMaker maker;
  maker.Make({bytes + 1, kBytes - 1});  // the first of the four is not whole
  for (uint64_t at = 0; at < kBytes; at += 4096) {
    const bool is_set = at < 2 * kHugePageBytes;
    ASSERT_EQ(bytes[at], is_set ? std::byte(at >> 12) : std::byte{0}) << at;
  }
  munmap(base, kBytes);
  if (maker.bytes_made() == 0) GTEST_SKIP() << "this kernel gives no huge pages when asked";
  EXPECT_EQ(maker.bytes_made(), 3 * kHugePageBytes);
}

TEST(HugePageMaker, WhatIsNoMemoryIsLeftAlone) {
  HugePageMaker maker;
  const UniqueFd file(memfd_create("short", MFD_CLOEXEC));
  void* const base = MapShared(file.get(), 100 * kHugePageBytes, PROT_READ | PROT_WRITE);
  ASSERT_NE(base, MAP_FAILED);
  maker.Make({static_cast<std::byte*>(base), 100 * kHugePageBytes});
  EXPECT_EQ(maker.bytes_made(), 0u);
  munmap(base, 100 * kHugePageBytes);
}

TEST(SystemMemory, ReadsTheLinesOfMeminfo) {
  constexpr char kText[] = "MemTotal:       16000 kB\nHugePages_Free:       12\nBad:  x kB\n";
  EXPECT_EQ(MeminfoValue(kText, "MemTotal"), 16000u * 1024);
  EXPECT_EQ(MeminfoValue(kText, "HugePages_Free"), 12u);
  EXPECT_EQ(MeminfoValue(kText, "Bad"), std::nullopt);
  EXPECT_EQ(MeminfoValue(kText, "Absent"), std::nullopt);
  EXPECT_EQ(MeminfoValue("Big: 99999999999999999 kB", "Big"), std::nullopt);
  EXPECT_GT(ReadSystemMemory().total_bytes, 0u);
}

}  // namespace
}  // namespace moonpool::storage_node
