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
#include "common/map_shared.h"
#include "common/status_macros.h"
#include "transport/stream/socket.h"

// Linux 5.14; Debian 12's glibc headers do not have them.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace moonpool::transport {
namespace {

// What is touched at once. Small, since who reads one small object pays for the whole block: some
// 15 us, as much as eight faults. Larger blocks cost as much for each page.
constexpr uint64_t kBlockBytes = 256 << 10;
// Of one range, so that no call takes longer than some milliseconds: the rest faults when used.
constexpr uint64_t kTouchedMax = 64 << 20;
constexpr uint64_t kWordBits = 64;

constexpr uint64_t DividedUp(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

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
  void* const memory =
      MapShared(fd, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_NORESERVE);
  if (memory == MAP_FAILED) return SocketError("map shared memory", errno);
  mapping.bytes_ = MutableBytes(static_cast<std::byte*>(memory), bytes);
  mapping.is_writable_ = writable;
  mapping.touched_ = std::make_unique<std::atomic<uint64_t>[]>(
      DividedUp(DividedUp(bytes, kBlockBytes), kWordBits));
  return mapping;
}

void Mapping::Touch(uint64_t offset, uint64_t length) const {
  if (length == 0) return;
  const uint64_t last = (offset + std::min(length, kTouchedMax) - 1) / kBlockBytes;
  for (uint64_t block = offset / kBlockBytes; block <= last; ++block) TouchBlock(block);
}

// Whoever comes second at the same time need not wait: it takes the faults that are left.
void Mapping::TouchBlock(uint64_t block) const {
  std::atomic<uint64_t>& word = touched_[block / kWordBits];
  const uint64_t bit = uint64_t{1} << (block % kWordBits);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  const MutableBytes left = bytes_.subspan(block * kBlockBytes);
  (void)madvise(left.data(), std::min<uint64_t>(left.size(), kBlockBytes),
                is_writable_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

}  // namespace moonpool::transport
