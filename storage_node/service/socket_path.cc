#include "storage_node/service/socket_path.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::storage_node {
namespace {

constexpr size_t kPathBytesMax = sizeof(sockaddr_un{}.sun_path) - 1;

bool IsFolder(const std::string& path) {
  struct stat info {};
  return !path.empty() && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == geteuid();
}

// lstat: a link that somebody put into /tmp is not followed.
absl::Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("mkdir ", path));
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("lstat ", path));
  }
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                   absl::StrCat(path, " is no folder of this user alone"),
                   {.hint = "remove it, or set --shm-path"});
}

std::string FileName(absl::string_view node_name) {
  std::string name;
  for (const char c : node_name) {
    const auto byte = static_cast<unsigned char>(c);
    name.push_back(absl::ascii_isalnum(byte) || c == '-' || c == '.' ? c : '_');
  }
  return name;
}

}  // namespace

absl::StatusOr<std::string> SocketPathUnder(const std::string& runtime_folder,
                                            const std::string& temp_folder,
                                            absl::string_view node_name) {
  const std::string folder = IsFolder(runtime_folder)
                                 ? absl::StrCat(runtime_folder, "/moonpool")
                                 : absl::StrCat(temp_folder, "/moonpool-", geteuid());
  RETURN_IF_ERROR(MakePrivateFolder(folder));
  std::string path = absl::StrCat(folder, "/", FileName(node_name), ".sock");
  if (path.size() > kPathBytesMax) {
    path = absl::StrCat(folder, "/", absl::Hex(Checksum(node_name), absl::kZeroPad16), ".sock");
  }
  return path;
}

absl::StatusOr<std::string> DefaultSocketPath(absl::string_view node_name) {
  return SocketPathUnder(absl::StrCat("/run/user/", geteuid()), "/tmp", node_name);
}

}  // namespace moonpool::storage_node
