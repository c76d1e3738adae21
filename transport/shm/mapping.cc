#include "transport/shm/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {
namespace {

absl::Status NotMapped(absl::string_view why, absl::string_view hint) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame,
                   absl::StrCat("the memory that is to be mapped could be cut short: ", why),
                   {.hint = std::string(hint)});
}

bool IsInMemory(int fd) {
  struct statfs system {};
  if (fstatfs(fd, &system) != 0) return false;
  return system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC;
}

absl::Status CheckTrusted(absl::string_view what, uint32_t user, const FileTrust& trust) {
  const absl::Span<const uint32_t> listed = trust.trusted_uids;
  if (user == 0 || user == geteuid() ||
      std::find(listed.begin(), listed.end(), user) != listed.end()) {
    return absl::OkStatus();
  }
  return NotMapped(absl::StrCat(what, " user ", user, ", who is not trusted"),
                   "name the node's user in ClientOptions::trusted_uids");
}

}  // namespace

absl::Status CheckKeepsItsLength(int fd, const FileTrust& trust) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0) return absl::OkStatus();

  struct stat file {};
  if (!trust.giver.has_value() || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
      !IsInMemory(fd)) {
    return NotMapped("it is neither a sealed memfd nor a file on tmpfs or hugetlbfs", "");
  }
  RETURN_IF_ERROR(CheckTrusted("it belongs to", file.st_uid, trust));
  RETURN_IF_ERROR(CheckTrusted("it was handed over by", *trust.giver, trust));
  if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return NotMapped("its group or others may write it", "take that right away from the file");
  }
  return absl::OkStatus();
}

std::optional<uint32_t> PeerUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer.uid;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

absl::StatusOr<Mapping> Mapping::Map(int fd, uint64_t bytes, bool writable,
                                     const FileTrust& trust) {
  Mapping mapping;
  if (bytes == 0) return mapping;
  RETURN_IF_ERROR(CheckKeepsItsLength(fd, trust));
  struct stat file {};
  if (fstat(fd, &file) != 0 || static_cast<uint64_t>(file.st_size) < bytes) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame,
                     absl::StrCat("file of ", file.st_size, " bytes is to be mapped for ", bytes));
  }
  void* memory = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return SocketError("map shared memory", errno);
  mapping.bytes_ = MutableBytes(static_cast<std::byte*>(memory), bytes);
  return mapping;
}

}  // namespace moonpool::transport
