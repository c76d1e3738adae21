// Gives every page of a mapping its memory now, so that no put waits for the kernel later and a
// machine that has not enough says so at the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace moonpool::storage_node {

struct PrefaultOptions {
  int threads = 1;  // named prefault-0, prefault-1, ...
  uint64_t page_bytes = 4096;
  // Transparent huge pages, where the kernel has any to give (Linux 6.1 or newer).
  bool wants_huge_pages = false;
  // Takes the memory behind bytes [from, to) before they are touched; on any of the threads,
  // several at a time. An error ends it.
  std::function<absl::Status(uint64_t from, uint64_t to)> reserve = [](uint64_t, uint64_t) {
    return absl::OkStatus();
  };
  // Asked between chunks of 64 MiB; true ends it with CANCELLED.
  std::function<bool()> should_stop = [] { return false; };
  // Bytes done so far, about every tenth of the whole; on any of the threads, one at a time.
  std::function<void(uint64_t)> on_progress = [](uint64_t) {};
};

// Blocks until all is done; returns how many bytes lie in huge pages that were asked for. The
// content stays as it is. RESOURCE_EXHAUSTED when there is not enough memory.
absl::StatusOr<uint64_t> Prefault(absl::Span<std::byte> memory, const PrefaultOptions& options);

}  // namespace moonpool::storage_node
