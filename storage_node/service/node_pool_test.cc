#include "storage_node/service/node_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "common/testing/test_logger.h"
#include "storage_node/journal/record_format.h"
#include "transport/shm/pin_file.h"
#include "transport/shm/pin_page.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kBytes = uint64_t{1} << 20;

class NodePoolTest : public ::testing::Test {
 protected:
  NodePoolTest() {
    options_.memory.capacity_bytes = kBytes;
    options_.dir = parent_ + "/pool";
    options_.lock_wait = absl::ZeroDuration();
  }

  // The pool that the next process has.
  absl::Status Reopen() {
    pool_.reset();
    auto pool = NodePool::Open(options_, clock_, log_.logger());
    if (!pool.ok()) return pool.status();
    pool_ = *std::move(pool);
    pool_->index().SetFloor({});
    pool_->index().NoteTerm(Term{1});
    return absl::OkStatus();
  }
  absl::Status Put(uint32_t counter, size_t payload_bytes = 64) {
    const Extent extent{SegmentId{0}, 4096 * uint64_t{counter}, payload_bytes + kPartHeaderBytes};
    const Generation generation = Generation::Of(Term{1}, counter);
    auto claim = pool_->index().Claim(generation, extent, transport::WriterKind::kStepwise);
    if (!claim.ok()) return claim.status();
    std::memset((*claim)->payload().data(), static_cast<int>(counter), payload_bytes);
    (*claim)->SetWritten();
    return pool_->index().Seal({.generation = generation,
                                .name_space = "default",
                                .key = absl::StrCat("key", counter),
                                .parent = {},
                                .extent = extent,
                                .object_bytes = payload_bytes,
                                .payload_checksum = Checksum((*claim)->payload())});
  }
  uint64_t Parts() { return pool_->index().stats(0).sealed_parts; }
  std::string File(const std::string& name) { return options_.dir + "/" + name; }
  // Turns the bits of one byte of a file.
  void Spoil(const std::string& name, uint64_t at) {
    std::fstream file(File(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(~file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  const TempDir dir_{kTmpfs};
  const std::string parent_ = dir_.path();
  SteadyClock clock_;
  TestLogger log_;
  NodePoolOptions options_;
  std::unique_ptr<NodePool> pool_;
};

TEST_F(NodePoolTest, TheNextProcessHasWhatTheLastOneSealed) {
  ASSERT_THAT(Reopen(), IsOk());
  const Incarnation incarnation = pool_->incarnation();
  for (uint32_t i = 1; i <= 100; ++i) ASSERT_THAT(Put(i), IsOk());
  for (int life = 0; life < 3; ++life) {
    ASSERT_THAT(Reopen(), IsOk());
    EXPECT_EQ(pool_->incarnation(), incarnation);
    EXPECT_EQ(Parts(), 100u);
    EXPECT_EQ(pool_->memory().base()[4096 * 7 + kPartHeaderBytes], std::byte{7});
  }
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("the pool is kept")));
  EXPECT_THAT(Put(101), IsOk());
}

// So that what does not fit shows at the start, and not when the pool is full.
TEST_F(NodePoolTest, ItsIndexHasRoomFromTheStart) {
  options_.memory.capacity_bytes = 512 * kBytes;
  ASSERT_THAT(Reopen(), IsOk());
  struct stat info {};
  ASSERT_EQ(stat(File("index").c_str(), &info), 0);
  EXPECT_EQ(static_cast<uint64_t>(info.st_blocks) * 512, 2 * kBytes);
}

TEST_F(NodePoolTest, OneThatCannotBeMadeLeavesNothingBehind) {
  options_.memory.should_stop = [] { return true; };
  EXPECT_FALSE(Reopen().ok());
  EXPECT_NE(access(File("index").c_str(), F_OK), 0);
  EXPECT_NE(access(File("pool").c_str(), F_OK), 0);
  options_.memory.should_stop = [] { return false; };
  EXPECT_THAT(Reopen(), IsOk());
  EXPECT_EQ(access(File("pool").c_str(), F_OK), 0);
}

TEST_F(NodePoolTest, WithoutAFolderNothingIsKept) {
  options_.dir = "";
  ASSERT_THAT(Reopen(), IsOk());
  const Incarnation incarnation = pool_->incarnation();
  ASSERT_THAT(Put(1), IsOk());
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_NE(pool_->incarnation(), incarnation);
  EXPECT_EQ(Parts(), 0u);
}

// Whatever does not fit is said, and costs the content, never the start.
TEST_F(NodePoolTest, WhatDoesNotFitIsReplaced) {
  const std::string boot_id = parent_ + "/boot_id";
  const auto replace = [&](const char* why, auto change) {
    ASSERT_THAT(Reopen(), IsOk()) << why;
    ASSERT_THAT(Put(1), IsOk()) << why;
    const Incarnation incarnation = pool_->incarnation();
    pool_.reset();
    change();
    ASSERT_THAT(Reopen(), IsOk()) << why;
    EXPECT_NE(pool_->incarnation(), incarnation) << why;
    EXPECT_EQ(Parts(), 0u) << why;
    EXPECT_THAT(log_.lines().back(), HasSubstr("pool memory is ready")) << why;
    EXPECT_THAT(log_.lines()[log_.lines().size() - 2], HasSubstr(why));
  };
  replace("bytes", [&] { options_.memory.capacity_bytes += 4096; });
  replace("another size", [&] { options_.memory.capacity_bytes -= 1; });
  replace("header is damaged", [&] { Spoil("index", 17); });
  replace("no index", [&] { Spoil("index", 0); });
  replace("too short", [&] { std::filesystem::resize_file(File("index"), 100); });
  replace("no pool", [&] { std::filesystem::remove(File("pool")); });
  replace("another file", [&] {  // the same bytes, copied
    std::filesystem::rename(File("pool"), File("old"));
    std::filesystem::copy_file(File("old"), File("pool"));
    ASSERT_EQ(chmod(File("pool").c_str(), 0600), 0);
  });
  replace("another boot", [&] {
    options_.boot_id_path = boot_id;
    std::ofstream(boot_id) << "not this one";
  });
}

TEST_F(NodePoolTest, NoIndexIsAFreshStart) {
  ASSERT_THAT(Reopen(), IsOk());
  ASSERT_THAT(Put(1), IsOk());
  pool_.reset();
  std::filesystem::remove(File("index"));
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 0u);
  EXPECT_THAT(log_.lines(), Not(Contains(HasSubstr("does not fit"))));
}

TEST_F(NodePoolTest, DamagedRecordsCostThemselvesOnly) {
  ASSERT_THAT(Reopen(), IsOk());
  for (uint32_t i = 1; i <= 100; ++i) ASSERT_THAT(Put(i), IsOk());
  pool_.reset();
  // Each has a head and one cell of text.
  for (const uint64_t record : {0, 13, 99}) Spoil("index", (kHeaderCells + 2 * record) * 64 + 20);
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 97u);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("damaged=3")));
}

// A client outlives the node with its pins, and with the pool mapped.
TEST_F(NodePoolTest, WhatClientsOfTheLastLifeUseIsGivenToNobody) {
  ASSERT_THAT(Reopen(), IsOk());
  ASSERT_THAT(transport::PreparePinsFolder(pool_->pins_dir()), IsOk());
  auto page = transport::PinFile::Create(pool_->pins_dir(), 8);
  ASSERT_THAT(page, IsOk());
  auto client = transport::PinSlots::Map((*page)->fd(), 8, {.giver = geteuid()});
  ASSERT_THAT(client, IsOk());
  (*page)->LeaveToNextLife();
  page->reset();
  ASSERT_THAT(Put(1), IsOk());
  ASSERT_THAT((*client)->Acquire(Generation::Of(Term{1}, 1)), IsOk());

  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(pool_->ReleaseEnded(), 1u);
  const auto is_pinned = Fails(StatusCode::kUnavailable, ErrorReason::kBytesPinned);
  const auto overwrite = [&](uint32_t counter) {
    return pool_->index()
        .Claim(Generation::Of(Term{1}, counter), {SegmentId{0}, 4096, 128},
               transport::WriterKind::kStepwise)
        .status();
  };
  EXPECT_THAT(overwrite(2), is_pinned);
  const Generation freed[] = {Generation::Of(Term{1}, 1)};
  EXPECT_EQ(pool_->index().Free(freed), 1u);
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 0u);
  EXPECT_THAT(overwrite(3), is_pinned) << "freed, and still looked at";
  client->reset();
  EXPECT_EQ(pool_->ReleaseEnded(), 0u);
  EXPECT_THAT(overwrite(4), IsOk());
}

TEST_F(NodePoolTest, APoolThatIsReplacedLeavesNoPagesOfPins) {
  ASSERT_THAT(Reopen(), IsOk());
  ASSERT_THAT(transport::PreparePinsFolder(pool_->pins_dir()), IsOk());
  auto page = transport::PinFile::Create(pool_->pins_dir(), 8);
  ASSERT_THAT(page, IsOk());
  (*page)->LeaveToNextLife();
  page->reset();
  options_.memory.capacity_bytes *= 2;
  ASSERT_FALSE(std::filesystem::is_empty(pool_->pins_dir()));
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(pool_->pins_dir()));
}

// In another folder nobody sees the pins of the last one.
TEST_F(NodePoolTest, APoolIsOfItsFolderOfPins) {
  ASSERT_THAT(Reopen(), IsOk());
  ASSERT_THAT(Put(1), IsOk());
  options_.pins_dir = parent_ + "/pins";
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 0u);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("another folder of pins")));
  ASSERT_THAT(Put(1), IsOk());
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 1u);
}

TEST_F(NodePoolTest, AFolderOfPinsIsTheSameHoweverItIsSpelt) {
  ASSERT_THAT(Reopen(), IsOk());
  ASSERT_THAT(Put(1), IsOk());
  const std::string link = parent_ + "/link";
  std::filesystem::create_directory_symlink(options_.dir, link);
  for (const std::string& pins :
       {File("pins"), File("pins/"), parent_ + "//pool/./pins", link + "/pins", std::string()}) {
    options_.pins_dir = pins;
    ASSERT_THAT(Reopen(), IsOk());
    EXPECT_EQ(Parts(), 1u) << pins;
  }
}

TEST_F(NodePoolTest, AFolderOfPinsThatHasTakenThePlaceOfAnotherIsNotThatOne) {
  options_.pins_dir = parent_ + "/pins";
  ASSERT_THAT(Reopen(), IsOk());
  ASSERT_THAT(Put(1), IsOk());
  std::filesystem::rename(options_.pins_dir, parent_ + "/before");
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 0u);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("another folder of pins")));
}

TEST_F(NodePoolTest, OneProcessHasThePool) {
  ASSERT_THAT(Reopen(), IsOk());
  const auto second = NodePool::Open(options_, clock_, log_.logger());
  EXPECT_THAT(second, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(Describe(second.status()), HasSubstr("--pool-dir"));
  ASSERT_THAT(Put(1), IsOk());
  ASSERT_THAT(Reopen(), IsOk());
  EXPECT_EQ(Parts(), 1u) << "the one that came second has touched nothing";
}

TEST_F(NodePoolTest, APoolThatTheFileSystemHasNoRoomForIsAnError) {
  struct statfs system {};
  ASSERT_EQ(statfs(parent_.c_str(), &system), 0);
  if (system.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit here";
  options_.memory.capacity_bytes = (system.f_blocks + 1) * static_cast<uint64_t>(system.f_bsize);
  const absl::Status status = Reopen();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(Describe(status), HasSubstr("lower --dram"));
}

}  // namespace
}  // namespace moonpool::storage_node
