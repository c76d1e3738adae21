// Transparent huge pages for memory that processes share: a quarter of the time of a copy out of
// small pages goes into finding them, and a client's first use of a huge one is one fault in place
// of 512.
//
// Of itself Linux gives shared memory none unless transparent_hugepage/shmem_enabled says so, which
// it does nearly nowhere. Asked for range by range (MADV_COLLAPSE, Linux 6.1) it gives them, unless
// that setting is "deny".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace moonpool::storage_node {

// Thread-safe. Best effort: what it does not get stays as it is, and it stops asking when the
// kernel has none, since each refusal may cost a search through all memory.
class HugePageMaker {
 public:
  // Of every aligned 2 MiB (kHugePageBytes) within it. The content stays; memory that no page has
  // been touched of costs least.
  void Make(absl::Span<std::byte> memory);
  uint64_t bytes_made() const;

 private:
  std::atomic<uint64_t> pages_made_{0};
  std::atomic<int> refusals_{0};
};

}  // namespace moonpool::storage_node
