#include "storage_node/memory/pool_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "common/testing/test_logger.h"
#include "storage_node/memory/growing_file.h"
#include "storage_node/memory/segment_memory.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLargest = uint64_t{64} << 30;  // address space only

class PoolDirectoryTest : public ::testing::Test {
 protected:
  absl::StatusOr<PoolDirectory> Open(const std::string& path) {
    return PoolDirectory::Open({.path = path, .lock_wait = absl::ZeroDuration()}, clock_);
  }
  absl::StatusOr<SegmentMemory> Create(const PoolDirectory& directory, uint64_t bytes) {
    return SegmentMemory::CreateFile(directory, "pool", {.capacity_bytes = bytes}, clock_,
                                     log_.logger());
  }

  SteadyClock clock_;
  TestLogger log_;
  const TempDir shared_{kTmpfs};
  const std::string path_ = shared_.path() + "/pool";
};

TEST_F(PoolDirectoryTest, MakesAFolderOfThisUserAlone) {
  ASSERT_THAT(Open(path_), IsOk());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(chmod(path_.c_str(), 0750), 0);
  const auto open = Open(path_);
  EXPECT_THAT(open, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(Describe(open.status()), HasSubstr("chmod"));
}

TEST_F(PoolDirectoryTest, APlaceOutsideOfMemoryIsRefusedWithWhatToDo) {
  const TempDir temp;
  struct statfs system {};
  ASSERT_EQ(statfs(temp.path().c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "the temporary folder is in memory here";
  const auto open = Open(temp.path());
  EXPECT_THAT(open, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Describe(open.status()), HasSubstr("/dev/shm/moonpool-NAME"));
}

TEST_F(PoolDirectoryTest, WhatIsNoFolderIsRefused) {
  EXPECT_FALSE(Open(shared_.path() + "/not/there").ok());
  ASSERT_EQ(symlink(shared_.path().c_str(), path_.c_str()), 0);
  EXPECT_FALSE(Open(path_).ok()) << "a link that somebody else may turn";
}

TEST_F(PoolDirectoryTest, OneProcessHasItAndTheOtherIsToldWho) {
  std::optional<PoolDirectory> first;
  ASSERT_OK_AND_ASSIGN(first, Open(path_));
  const auto second = Open(path_);
  EXPECT_THAT(second, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(Describe(second.status()), HasSubstr("has the pool in " + path_));
  // The kernel's list is empty in some sandboxes; where it is not, it names us.
  std::ifstream locks("/proc/locks");
  if (locks.peek() != std::ifstream::traits_type::eof()) {
    EXPECT_THAT(Describe(second.status()), HasSubstr(absl::StrCat("process ", getpid())));
  }
  first.reset();
  EXPECT_THAT(Open(path_), IsOk());
}

TEST_F(PoolDirectoryTest, TheLockIsWaitedForUntilItIsFreeOrOneIsToldToStop) {
  std::optional<PoolDirectory> first;
  ASSERT_OK_AND_ASSIGN(first, Open(path_));
  int looks = 0;
  PoolDirectoryOptions options{.path = path_, .lock_wait = absl::Minutes(10)};
  options.should_stop = [&] {
    if (++looks == 3) first.reset();
    return false;
  };
  EXPECT_THAT(PoolDirectory::Open(options, clock_), IsOk());
  EXPECT_EQ(looks, 3);
  ASSERT_OK_AND_ASSIGN(first, Open(path_));
  options.should_stop = [] { return true; };
  EXPECT_THAT(PoolDirectory::Open(options, clock_), StatusIs(StatusCode::kCancelled));
}

TEST_F(PoolDirectoryTest, ASegmentIsTakenOverWithItsContent) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  EXPECT_THAT(SegmentMemory::OpenFile(directory, "pool", {.capacity_bytes = kMiB}),
              StatusIs(StatusCode::kNotFound));
  std::optional<SegmentMemory> memory;
  ASSERT_OK_AND_ASSIGN(memory, Create(directory, kMiB - 5));
  EXPECT_EQ(memory->capacity_bytes(), kMiB - 5);
  EXPECT_EQ(memory->mapped_bytes(), kMiB);
  EXPECT_EQ(memory->base()[0], std::byte{0});
  memory->base()[kMiB - 6] = std::byte{42};
  memory.reset();
  ASSERT_OK_AND_ASSIGN(memory,
                       SegmentMemory::OpenFile(directory, "pool", {.capacity_bytes = kMiB - 5}));
  EXPECT_EQ(memory->base()[kMiB - 6], std::byte{42});
  EXPECT_THAT(SegmentMemory::OpenFile(directory, "pool", {.capacity_bytes = kMiB + 1}),
              StatusIs(StatusCode::kFailedPrecondition));
  // A new one leaves the bytes of the old one to whoever still has them mapped.
  ASSERT_OK_AND_ASSIGN(const SegmentMemory next, Create(directory, 2 * kMiB));
  EXPECT_EQ(memory->base()[kMiB - 6], std::byte{42});
  EXPECT_EQ(next.base()[kMiB - 6], std::byte{0});
}

TEST_F(PoolDirectoryTest, AFileWithoutMemoryIsNotTakenOver) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  ASSERT_OK_AND_ASSIGN(const UniqueFd file, directory.NewFile("pool"));
  ASSERT_EQ(ftruncate(file.get(), kMiB), 0);
  EXPECT_THAT(SegmentMemory::OpenFile(directory, "pool", {.capacity_bytes = kMiB}),
              StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(PoolDirectoryTest, FilesOfOthersAreNotTaken) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  ASSERT_OK_AND_ASSIGN(const UniqueFd file, directory.NewFile("pool"));
  ASSERT_EQ(fchmod(file.get(), 0644), 0);
  EXPECT_THAT(directory.OpenFile("pool"), StatusIs(StatusCode::kFailedPrecondition));
  ASSERT_EQ(symlink("lock", (path_ + "/link").c_str()), 0);
  EXPECT_FALSE(directory.OpenFile("link").ok());
}

TEST_F(PoolDirectoryTest, HugePagesAreAMatterOfTheFolder) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  const auto create = SegmentMemory::CreateFile(
      directory, "pool", {.capacity_bytes = kMiB, .huge_pages = HugePages::kOn}, clock_,
      log_.logger());
  EXPECT_THAT(create, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Describe(create.status()), HasSubstr("hugetlbfs"));
}

TEST_F(PoolDirectoryTest, AFileSystemThatIsTooSmallIsAnErrorThatTakesNothing) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  struct statfs system {};
  ASSERT_EQ(statfs(path_.c_str(), &system), 0);
  if (system.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit here";
  const uint64_t total = system.f_blocks * static_cast<uint64_t>(system.f_bsize);
  ASSERT_OK_AND_ASSIGN(const UniqueFd file, directory.NewFile("pool"));
  const absl::Status status = AllocateFile(file.get(), 0, total + kMiB, "make room");
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(Describe(status), HasSubstr("make room"));
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

// Where the kernel would send a signal that ends the process.
TEST_F(PoolDirectoryTest, AFileOverTheLimitOfTheProcessIsAnError) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  ASSERT_OK_AND_ASSIGN(GrowingFile file, GrowingFile::Create(directory, "index", 4 * kMiB));
  ASSERT_THAT(file.MakeReady(1), IsOk());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{.rlim_cur = kMiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const absl::StatusOr<size_t> grown = file.MakeReady(2 * kMiB);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(grown, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(Describe(grown.status()), HasSubstr("ulimit -f"));
  EXPECT_THAT(file.MakeReady(2 * kMiB), IsOk());
}

TEST_F(PoolDirectoryTest, AGrowingFileKeepsItsAddressAndItsContent) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  EXPECT_THAT(GrowingFile::Open(directory, "index", kMiB), StatusIs(StatusCode::kNotFound));
  std::optional<GrowingFile> file;
  ASSERT_OK_AND_ASSIGN(file, GrowingFile::Create(directory, "index", kLargest));
  EXPECT_EQ(file->ready_bytes(), 0u);
  EXPECT_EQ(file->bytes().size(), kLargest);
  std::byte* const base = file->bytes().data();
  ASSERT_OK_AND_ASSIGN(const size_t first, file->MakeReady(1));
  base[first - 1] = std::byte{7};
  ASSERT_OK_AND_ASSIGN(const size_t second, file->MakeReady(first + 1));
  EXPECT_GT(second, first);
  EXPECT_EQ(file->bytes().data(), base);
  EXPECT_EQ(base[first - 1], std::byte{7});
  EXPECT_EQ(base[second - 1], std::byte{0});
  EXPECT_THAT(file->MakeReady(kLargest + 1), StatusIs(StatusCode::kResourceExhausted));
  file.reset();
  ASSERT_OK_AND_ASSIGN(file, GrowingFile::Open(directory, "index", kLargest));
  EXPECT_EQ(file->ready_bytes(), second);
  EXPECT_EQ(file->bytes()[first - 1], std::byte{7});
  // One that is longer than it may become now is there as a whole.
  ASSERT_OK_AND_ASSIGN(file, GrowingFile::Open(directory, "index", first));
  EXPECT_EQ(file->ready_bytes(), second);
  EXPECT_EQ(file->bytes().size(), second);
}

TEST_F(PoolDirectoryTest, HolesOfAFileAreFilledWhenItIsOpened) {
  ASSERT_OK_AND_ASSIGN(const PoolDirectory directory, Open(path_));
  ASSERT_OK_AND_ASSIGN(const UniqueFd raw, directory.NewFile("index"));
  ASSERT_EQ(ftruncate(raw.get(), 3 * kMiB + 17), 0);
  ASSERT_OK_AND_ASSIGN(const GrowingFile file, GrowingFile::Open(directory, "index", 8 * kMiB));
  EXPECT_EQ(file.ready_bytes(), 3 * kMiB);
  struct stat info {};
  ASSERT_EQ(fstat(raw.get(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, 3 * kMiB);
}

}  // namespace
}  // namespace moonpool::storage_node
