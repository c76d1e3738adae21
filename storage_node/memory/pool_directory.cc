#include "storage_node/memory/pool_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;

constexpr absl::Duration kLookForLock = absl::Milliseconds(20);
constexpr uint64_t kStatBlockBytes = 512;  // of st_blocks, whatever the file system's are
constexpr uint64_t kAllocateStep = uint64_t{1} << 30;
constexpr char kPlaceHint[] = "choose a folder on tmpfs, like /dev/shm/moonpool-NAME, or hugetlbfs";

absl::Status CallFailed(absl::string_view call, const std::string& path, int error,
                        std::string hint = "") {
  return MakeError(absl::ErrnoToStatusCode(error), ErrorReason::kBadArgument,
                   absl::StrCat(call, " ", path, ": ", std::generic_category().message(error)),
                   {.hint = std::move(hint)});
}

bool IsPrivate(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

// "pid 42", from the kernel's list of locks: the file may lie where nothing can be written.
std::string HolderOf(int lock_fd) {
  struct stat info {};
  if (fstat(lock_fd, &info) != 0) return "another process";
  const std::string file =
      absl::StrFormat("%02x:%02x:%u", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // 1: FLOCK  ADVISORY  WRITE 4711 00:19:42 0 EOF
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() > 5 && words[1] == "FLOCK" && words[5] == file) {
      return absl::StrCat("process ", words[4]);
    }
  }
  return "another process";
}

}  // namespace

absl::StatusOr<PoolDirectory> PoolDirectory::Open(const PoolDirectoryOptions& options,
                                                  const Clock& clock) {
  PoolDirectory directory;
  directory.path_ = options.path;
  if (mkdir(options.path.c_str(), 0700) != 0 && errno != EEXIST) {
    return CallFailed("mkdir", options.path, errno, "make its parent folder, writable for us");
  }
  directory.folder_ =
      UniqueFd(open(options.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.folder_.valid()) {
    return CallFailed("open the folder", options.path, errno, kPlaceHint);
  }
  RETURN_IF_ERROR(directory.CheckPlace());
  RETURN_IF_ERROR(directory.Lock(options, clock));
  return directory;
}

absl::Status PoolDirectory::CheckPlace() {
  struct statfs system {};
  if (fstatfs(folder_.get(), &system) != 0) return CallFailed("fstatfs", path_, errno);
  has_huge_pages_ = system.f_type == HUGETLBFS_MAGIC;
  if (!has_huge_pages_ && system.f_type != TMPFS_MAGIC) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(path_, " is not in memory"), {.hint = kPlaceHint});
  }
  page_bytes_ =
      std::max(static_cast<uint64_t>(system.f_bsize), static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  struct stat info {};
  if (fstat(folder_.get(), &info) != 0) return CallFailed("fstat", path_, errno);
  if (IsPrivate(info)) return absl::OkStatus();
  return MakeError(
      StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
      absl::StrCat(path_, " is no folder of this user alone"),
      {.hint = "chown it to the user of the node and chmod it to 700, or name one that "
               "is not there yet"});
}

absl::Status PoolDirectory::Lock(const PoolDirectoryOptions& options, const Clock& clock) {
  lock_ = UniqueFd(openat(folder_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock_.valid()) return CallFailed("open the lock in", path_, errno);
  const absl::Time deadline = clock.Now() + options.lock_wait;
  while (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return CallFailed("flock", path_, errno);
    if (options.should_stop()) return absl::CancelledError("stopped while waiting for the pool");
    if (clock.Now() >= deadline) {
      return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                       absl::StrCat(HolderOf(lock_.get()), " has the pool in ", path_,
                                    ", and kept it for ", absl::FormatDuration(options.lock_wait)),
                       {.hint = "stop that node, or give this one a --pool-dir of its own"});
    }
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kLookForLock)));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> PoolDirectory::OpenFile(const std::string& name) const {
  UniqueFd file(openat(folder_.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return CallFailed("open", absl::StrCat(path_, "/", name), errno);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return CallFailed("fstat", name, errno);
  if (S_ISREG(info.st_mode) && IsPrivate(info)) return file;
  return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                   absl::StrCat(path_, "/", name, " is no file of this user alone"));
}

absl::StatusOr<UniqueFd> PoolDirectory::NewFile(const std::string& name) const {
  RETURN_IF_ERROR(Remove(name));
  UniqueFd file(openat(folder_.get(), name.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return CallFailed("make", absl::StrCat(path_, "/", name), errno);
  return file;
}

absl::Status PoolDirectory::Remove(const std::string& name) const {
  if (unlinkat(folder_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  return CallFailed("remove", absl::StrCat(path_, "/", name), errno);
}

absl::Status CheckRoom(int fd, uint64_t from, uint64_t to, const std::string& hint) {
  // Beyond this limit the kernel sends SIGXFSZ instead of an error.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && to > limit.rlim_cur) {
    return MakeError(StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                     absl::StrCat("a file of ", to, " bytes is over the limit of this process, ",
                                  limit.rlim_cur),
                     {.hint = "raise the file size limit (ulimit -f, LimitFSIZE=)"});
  }
  struct stat info {};
  struct statfs system {};
  if (fstat(fd, &info) != 0 || fstatfs(fd, &system) != 0 || system.f_blocks == 0) {
    return absl::OkStatus();  // unknown, or without a limit
  }
  const uint64_t held = static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
  const uint64_t needed = to - std::min({to, std::max(from, held)});
  const uint64_t free = system.f_bavail * static_cast<uint64_t>(system.f_bsize);
  if (needed <= free) return absl::OkStatus();
  return MakeError(StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                   absl::StrCat(needed, " more bytes do not fit into the file system, which has ",
                                free, " left"),
                   {.hint = hint});
}

absl::Status AllocateFile(int fd, uint64_t from, uint64_t to, const std::string& hint) {
  RETURN_IF_ERROR(CheckRoom(fd, from, to, hint));
  // In steps, so that a signal costs one of them at most.
  while (from < to) {
    const uint64_t bytes = std::min(kAllocateStep, to - from);
    if (fallocate(fd, 0, static_cast<off_t>(from), static_cast<off_t>(bytes)) != 0) {
      const int error = errno;
      if (error == EINTR) continue;
      return MakeError(StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                       absl::StrCat("fallocate of ", bytes, " bytes: ",
                                    std::generic_category().message(error), " (errno ", error, ")"),
                       {.hint = hint});
    }
    from += bytes;
  }
  return absl::OkStatus();
}

}  // namespace moonpool::storage_node
