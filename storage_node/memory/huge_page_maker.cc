#include "storage_node/memory/huge_page_maker.h"

#include <sys/mman.h>

#include "common/map_shared.h"

// Debian 12's glibc headers do not have them.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace moonpool::storage_node {
namespace {

constexpr int kRefusalsMax = 16;

// A range without a single page is refused: the first is touched, by a call that says so where
// there is no memory for it (to store into it would be a signal).
bool MakeOne(std::byte* begin) {
  return madvise(begin, 1, MADV_POPULATE_WRITE) == 0 &&
         madvise(begin, kHugePageBytes, MADV_COLLAPSE) == 0;
}

}  // namespace

void HugePageMaker::Make(absl::Span<std::byte> memory) {
  const uint64_t past = reinterpret_cast<uintptr_t>(memory.data()) % kHugePageBytes;
  const uint64_t first = past == 0 ? 0 : kHugePageBytes - past;
  for (uint64_t at = first; at + kHugePageBytes <= memory.size(); at += kHugePageBytes) {
    if (refusals_.load(std::memory_order_relaxed) >= kRefusalsMax) return;
    if (MakeOne(&memory[at])) {
      pages_made_.fetch_add(1, std::memory_order_relaxed);
    } else {
      refusals_.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

uint64_t HugePageMaker::bytes_made() const {
  return pages_made_.load(std::memory_order_relaxed) * kHugePageBytes;
}

}  // namespace moonpool::storage_node
