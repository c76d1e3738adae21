#include "transport/shm/mapping.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <string>

#include "absl/base/attributes.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "common/unique_fd.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; Debian 12's glibc headers do not have it
#endif

namespace moonpool::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 1 << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr uint32_t kStranger = 54321;

auto IsRefused() { return Fails(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame); }

class MappingTest : public testing::Test {
 protected:
  static UniqueFd File(const TempDir& folder) {
    UniqueFd fd(open((folder.path() + "/pool").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(ftruncate(fd.get(), kBytes), 0);
    return fd;
  }
  static FileTrust FromUs() { return {.giver = geteuid()}; }

  const TempDir dir_{kTmpfs};
};

// Whoever cut the file short would kill all who have it mapped.
TEST_F(MappingTest, AMemfdMustBeSealed) {
  const UniqueFd file(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  for (const bool writable : {false, true}) {
    EXPECT_THAT(Mapping::Map(file.get(), kBytes, writable, FromUs()), IsRefused());
  }
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THAT(Mapping::Map(file.get(), kBytes, /*writable=*/true), IsOk());
  EXPECT_THAT(Mapping::Map(file.get(), kBytes + 1, /*writable=*/true), IsRefused());
}

TEST_F(MappingTest, AFileThatOnlyTrustedUsersMayWriteIsMapped) {
  const UniqueFd file = File(dir_);
  EXPECT_THAT(Mapping::Map(file.get(), kBytes, /*writable=*/true, FromUs()), IsOk());
  EXPECT_THAT(Mapping::Map(file.get(), kBytes + 1, /*writable=*/true, FromUs()), IsRefused());
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(fchmod(file.get(), mode), 0);
    EXPECT_THAT(Mapping::Map(file.get(), kBytes, /*writable=*/false, FromUs()), IsRefused());
  }
  ASSERT_EQ(fchmod(file.get(), 0644), 0);
  EXPECT_THAT(Mapping::Map(file.get(), kBytes, /*writable=*/false, FromUs()), IsOk());
}

// Of a file that this process's own user owns, too: they may cut it short whenever they like.
TEST_F(MappingTest, AStrangerHandsOverSealedMemoryOnly) {
  const UniqueFd file = File(dir_);
  const FileTrust from_stranger = {.giver = kStranger};
  const absl::Status refused =
      Mapping::Map(file.get(), kBytes, /*writable=*/false, from_stranger).status();
  EXPECT_THAT(refused, IsRefused());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("54321"));
  EXPECT_THAT(DetailOf(refused)->hint, HasSubstr("trusted_uids"));
  EXPECT_THAT(Mapping::Map(file.get(), kBytes, /*writable=*/false, {}), IsRefused());

  const uint32_t trusted[] = {1, kStranger};
  const FileTrust from_trusted = {.giver = kStranger, .trusted_uids = trusted};
  EXPECT_THAT(Mapping::Map(file.get(), kBytes, /*writable=*/false, from_trusted), IsOk());
}

TEST_F(MappingTest, TheOwnerOfAFileMustBeTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away: the owner's rule is not tested";
  const UniqueFd file = File(dir_);
  ASSERT_EQ(fchown(file.get(), kStranger, static_cast<gid_t>(-1)), 0);
  const absl::Status refused = CheckKeepsItsLength(file.get(), FromUs());
  EXPECT_THAT(refused, IsRefused());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("54321"));
  EXPECT_THAT(DetailOf(refused)->hint, HasSubstr("trusted_uids"));

  const uint32_t trusted[] = {kStranger};
  EXPECT_THAT(CheckKeepsItsLength(file.get(), {.giver = geteuid(), .trusted_uids = trusted}),
              IsOk());
}

TEST_F(MappingTest, WhatIsNoFileInMemoryIsRefused) {
  const UniqueFd zero(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(CheckKeepsItsLength(zero.get(), FromUs()), IsRefused());
  const UniqueFd folder(open(dir_.path().c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(CheckKeepsItsLength(folder.get(), FromUs()), IsRefused());
  const UniqueFd proc(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(CheckKeepsItsLength(proc.get(), FromUs()), IsRefused());
  EXPECT_THAT(CheckKeepsItsLength(-1, FromUs()), IsRefused());
}

long FaultsOfThisThread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// What it takes to load from each page, or to store into it. (A sanitizer would look at pages of
// its own meanwhile.)
ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS ABSL_ATTRIBUTE_NO_SANITIZE_THREAD long FaultsOfUse(
    MutableBytes range, bool writes) {
  const long before = FaultsOfThisThread();
  volatile std::byte* const end = range.data() + range.size();
  for (volatile std::byte* byte = range.data(); byte < end; byte += kPageBytes) {
    const std::byte value = *byte;
    if (writes) *byte = value;
  }
  return FaultsOfThisThread() - before;
}

// With a tail that is no whole block.
TEST_F(MappingTest, WhatIsTouchedTakesNoFaults) {
  constexpr uint64_t kOdd = kBytes + 3 * kPageBytes;
  const UniqueFd file(memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), kOdd), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  ASSERT_OK_AND_ASSIGN(const Mapping filled, Mapping::Map(file.get(), kOdd, /*writable=*/true));
  const long faults_without = FaultsOfUse(filled.bytes(), /*writes=*/true);
  ASSERT_GE(faults_without, 3);  // fewer where the kernel gives huge pages

  for (const bool writable : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const Mapping mapping, Mapping::Map(file.get(), kOdd, writable));
    void* const memory = mapping.bytes().data();
    if (madvise(memory, kPageBytes, MADV_POPULATE_READ) != 0) {
      GTEST_SKIP() << "this kernel maps no ranges at once (it is older than 5.14)";
    }
    mapping.Touch(kBytes / 2 + 1, kOdd - kBytes / 2 - 1);
    const MutableBytes touched = mapping.bytes().subspan(kBytes / 2);
    EXPECT_LT(FaultsOfUse(touched, writable), 3) << "writable " << writable;
    mapping.Touch(kOdd, 0);
    mapping.Touch(0, kOdd);
    EXPECT_LT(FaultsOfUse(mapping.bytes(), writable), 3) << "writable " << writable;
  }
}

TEST_F(MappingTest, ThePeerOfASocketIsKnown) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  const UniqueFd one(fds[0]);
  const UniqueFd other(fds[1]);
  EXPECT_EQ(PeerUser(one.get()), geteuid());
  EXPECT_EQ(PeerUser(-1), std::nullopt);
}

}  // namespace
}  // namespace moonpool::transport
