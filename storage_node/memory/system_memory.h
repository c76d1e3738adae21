// What this machine has: memory, huge pages, limits. Values of this moment, read from /proc and
// /sys.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace moonpool::storage_node {

struct SystemMemory {
  uint64_t total_bytes = 0;  // what this process may have at most: the machine's or its cgroup's
  uint64_t available_bytes = 0;  // without swapping, by the kernel's estimate
  bool is_limited_by_cgroup = false;
  uint64_t huge_page_bytes = 0;  // the default size; 0 = the kernel has none
  uint64_t free_huge_pages = 0;  // not reserved by anybody
};

SystemMemory ReadSystemMemory();

// One line of /proc/meminfo in bytes (kB lines) or as it is (counts); nullopt when it is missing
// or malformed.
std::optional<uint64_t> MeminfoValue(absl::string_view meminfo, absl::string_view name);

}  // namespace moonpool::storage_node
