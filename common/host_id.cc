#include "common/host_id.h"

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/checksum.h"

namespace moonpool {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

}  // namespace

std::string HostIdFrom(const std::string& machine_id_path, const std::string& boot_id_path) {
  const std::string machine = FirstLine(machine_id_path);
  const std::string boot = FirstLine(boot_id_path);
  if (machine.empty() && boot.empty()) return "";
  return absl::StrCat(absl::Hex(Checksum(absl::StrCat(machine, "/", boot)), absl::kZeroPad16));
}

std::string LocalHostId() {
  return HostIdFrom("/etc/machine-id", "/proc/sys/kernel/random/boot_id");
}

}  // namespace moonpool
