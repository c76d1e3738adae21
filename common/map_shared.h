// A shared mapping of a file in memory that can consist of huge pages.
#pragma once

#include <cstdint>

namespace moonpool {

// What the kernel makes of 4 KiB pages where both the address and the place in the file are aligned
// to it.
inline constexpr uint64_t kHugePageBytes = 2 << 20;

// mmap of the file's first `bytes`, MAP_SHARED | `flags`, aligned to kHugePageBytes unless it is
// shorter or there is no such room. MAP_FAILED with errno as mmap; undone by munmap.
void* MapShared(int fd, uint64_t bytes, int protection, int flags = 0);

}  // namespace moonpool
