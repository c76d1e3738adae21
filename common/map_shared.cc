#include "common/map_shared.h"

#include <sys/mman.h>

#include <cstddef>

namespace moonpool {
namespace {

// The first aligned address within an unused range of that size and a huge page more, which stays
// reserved from there on: MAP_FIXED replaces it. nullptr: no such room.
std::byte* ReserveAligned(uint64_t bytes) {
  const uint64_t reserved_bytes = bytes + kHugePageBytes;
  if (reserved_bytes < bytes) return nullptr;
  void* const reserved =
      mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  std::byte* const begin = static_cast<std::byte*>(reserved);
  const uint64_t past = reinterpret_cast<uintptr_t>(reserved) % kHugePageBytes;
  const uint64_t before = past == 0 ? 0 : kHugePageBytes - past;
  const uint64_t after = kHugePageBytes - before;
  if (before != 0) munmap(begin, before);
  // Of a size that is no multiple of pages the last one belongs to the mapping.
  constexpr uint64_t kSmallPageBytes = 4096;
  const uint64_t kept = (bytes + kSmallPageBytes - 1) / kSmallPageBytes * kSmallPageBytes;
  if (after > kept - bytes) munmap(begin + before + kept, after - (kept - bytes));
  return begin + before;
}

}  // namespace

void* MapShared(int fd, uint64_t bytes, int protection, int flags) {
  if (bytes >= kHugePageBytes) {
    if (std::byte* const aligned = ReserveAligned(bytes); aligned != nullptr) {
      void* const mapped = mmap(aligned, bytes, protection, MAP_SHARED | MAP_FIXED | flags, fd, 0);
      if (mapped != MAP_FAILED) return mapped;
      munmap(aligned, bytes);
    }
  }
  return mmap(nullptr, bytes, protection, MAP_SHARED | flags, fd, 0);
}

}  // namespace moonpool
