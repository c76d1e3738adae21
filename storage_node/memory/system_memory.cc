#include "storage_node/memory/system_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace moonpool::storage_node {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The tightest memory.max from our cgroup (version 2) up to the root.
uint64_t CgroupLimit() {
  std::string path;
  for (absl::string_view line : absl::StrSplit(ReadText("/proc/self/cgroup"), '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) path = std::string(line);
  }
  uint64_t limit = kNoLimit;
  while (!path.empty()) {
    uint64_t bytes = 0;
    const std::string text = ReadText(absl::StrCat("/sys/fs/cgroup", path, "/memory.max"));
    if (absl::SimpleAtoi(text, &bytes)) limit = std::min(limit, bytes);
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  return limit;
}

}  // namespace

std::optional<uint64_t> MeminfoValue(absl::string_view meminfo, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 2 || words[0] != absl::StrCat(name, ":")) continue;
    uint64_t value = 0;
    if (!absl::SimpleAtoi(words[1], &value)) return std::nullopt;
    const uint64_t unit = words.size() > 2 && words[2] == "kB" ? 1024 : 1;
    if (value > kNoLimit / unit) return std::nullopt;
    return value * unit;
  }
  return std::nullopt;
}

SystemMemory ReadSystemMemory() {
  const std::string meminfo = ReadText("/proc/meminfo");
  SystemMemory memory;
  memory.total_bytes = MeminfoValue(meminfo, "MemTotal").value_or(kNoLimit);
  memory.available_bytes = MeminfoValue(meminfo, "MemAvailable").value_or(memory.total_bytes);
  memory.huge_page_bytes = MeminfoValue(meminfo, "Hugepagesize").value_or(0);
  const uint64_t free = MeminfoValue(meminfo, "HugePages_Free").value_or(0);
  const uint64_t reserved = MeminfoValue(meminfo, "HugePages_Rsvd").value_or(0);
  memory.free_huge_pages = free - std::min(free, reserved);
  const uint64_t limit = CgroupLimit();
  if (limit < memory.total_bytes) {
    memory.total_bytes = limit;
    memory.is_limited_by_cgroup = true;
  }
  return memory;
}

}  // namespace moonpool::storage_node
