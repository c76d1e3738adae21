#include "common/map_shared.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>

#include "common/unique_fd.h"

namespace moonpool {
namespace {

UniqueFd FileOf(uint64_t bytes) {
  UniqueFd file(memfd_create("mapped", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

// Is there a page at this address, of whatever mapping.
bool IsMapped(const std::byte* at) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(at) / 4096 * 4096;
  unsigned char present = 0;
  return mincore(reinterpret_cast<void*>(page), 4096, &present) == 0;
}

TEST(MapShared, FromAHugePageOnTheAddressIsAligned) {
  for (const uint64_t bytes :
       {kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes - 1, 4 * kHugePageBytes}) {
    const UniqueFd file = FileOf(bytes);
    void* const mapped = MapShared(file.get(), bytes, PROT_READ | PROT_WRITE);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped) % kHugePageBytes, 0u);
    auto* const memory = static_cast<std::byte*>(mapped);
    memory[0] = std::byte{1};
    memory[bytes - 1] = std::byte{2};
    std::array<std::byte, 1> read{};
    ASSERT_EQ(pread(file.get(), read.data(), 1, static_cast<off_t>(bytes - 1)), 1);
    EXPECT_EQ(read[0], std::byte{2});
    munmap(mapped, bytes);
    EXPECT_FALSE(IsMapped(memory)) << bytes;
    EXPECT_FALSE(IsMapped(memory + bytes - 1)) << bytes;
  }
}

// A range of which something stayed reserved would be lost to the process each time.
TEST(MapShared, NothingStaysReserved) {
  const UniqueFd file = FileOf(kHugePageBytes + 5);
  for (int i = 0; i < 100'000; ++i) {
    void* const mapped = MapShared(file.get(), kHugePageBytes + 5, PROT_READ);
    ASSERT_NE(mapped, MAP_FAILED) << i << ": more mappings than a process may have";
    munmap(mapped, kHugePageBytes + 5);
  }
}

TEST(MapShared, WhatIsShorterOrImpossibleIsAsWithMmap) {
  const UniqueFd file = FileOf(4096);
  void* const mapped = MapShared(file.get(), 4096, PROT_READ);
  ASSERT_NE(mapped, MAP_FAILED);
  munmap(mapped, 4096);
  EXPECT_EQ(MapShared(-1, kHugePageBytes, PROT_READ), MAP_FAILED);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(MapShared(file.get(), std::numeric_limits<uint64_t>::max(), PROT_READ), MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace moonpool
