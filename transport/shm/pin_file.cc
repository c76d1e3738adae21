#include "transport/shm/pin_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/error.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

constexpr absl::string_view kPrefix = "pins-";
constexpr size_t kRandomDigits = 16;
constexpr size_t kReadBytes = 4096;
static_assert(kReadBytes % 8 == 0 && kPinSlotsAt < kReadBytes);

absl::Status BadFolder(const std::string& folder, absl::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat("the folder of pins, ", folder, ", ", why),
                   {.hint = "give a folder on tmpfs (/dev/shm) that belongs to the node's user"});
}

absl::Status CannotCreate(const std::string& path, int error) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kLimitReached,
                   absl::StrCat("create the page of pins ", path, ": ", std::strerror(error)),
                   {.hint = "look at the room on its file system, and at the node's open files"});
}

}  // namespace

absl::Status PreparePinsFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return BadFolder(folder, absl::StrCat("cannot be made: ", std::strerror(errno)));
  }
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat file {};
  struct statfs system {};
  if (!fd.valid() || fstat(fd.get(), &file) != 0 || fstatfs(fd.get(), &system) != 0) {
    return BadFolder(folder, absl::StrCat("cannot be opened: ", std::strerror(errno)));
  }
  // Elsewhere a full disk or a failing one would hold a client up that sets a pin, or kill it.
  if (system.f_type != TMPFS_MAGIC) return BadFolder(folder, "is not on tmpfs");
  // Who may remove a page takes the pins of others away.
  if (file.st_uid != geteuid() || (file.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return BadFolder(folder, "is not this user's alone");
  }
  return absl::OkStatus();
}

bool IsPinFileName(absl::string_view name) {
  return absl::ConsumePrefix(&name, kPrefix) && name.size() == kRandomDigits &&
         std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

absl::StatusOr<std::unique_ptr<PinPage>> PinFile::Create(const std::string& folder,
                                                         uint32_t slots) {
  std::unique_ptr<PinFile> page(new PinFile(
      absl::StrCat(folder, "/", kPrefix, absl::Hex(EntropySeed(), absl::kZeroPad16)), slots));
  RETURN_IF_ERROR(page->Open());
  return page;
}

absl::Status PinFile::Open() {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
  own_ = UniqueFd(open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
  if (!own_.valid()) return CannotCreate(path_, errno);
  std::array<std::byte, 8> head;
  StoreAs<uint32_t>(head.data(), kPinMagic);
  StoreAs<uint32_t>(head.data() + kPinSlotCountAt, slots_);
  // All of its memory now: a client that found none left when it sets a pin would be killed.
  if (fallocate(own_.get(), 0, 0, static_cast<off_t>(PinPageBytes(slots_))) != 0 ||
      pwrite(own_.get(), head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) {
    return CannotCreate(path_, errno);
  }
  clients_ = UniqueFd(open(path_.c_str(), kFlags));
  if (!clients_.valid() || flock(clients_.get(), LOCK_SH | LOCK_NB) != 0) {
    return CannotCreate(path_, errno);
  }
  return absl::OkStatus();
}

PinFile::~PinFile() {
  if (own_.valid() && !is_left_) unlink(path_.c_str());
}

bool PinFile::Holds(Generation generation) const {
  return PinFileHolds(own_.get(), slots_, generation);
}

void PinFile::Close() {
  std::array<std::byte, 4> closed;
  StoreAs<uint32_t>(closed.data(), 1);
  // Where this fails the client has cut the page short, and only its own views go on believing.
  [[maybe_unused]] const ssize_t written =
      pwrite(own_.get(), closed.data(), closed.size(), kPinsClosedAt);
}

bool PinFileHolds(int fd, uint32_t slots_max, Generation generation) {
  // The caller has invalidated the part's header, and a client looks at the header after it has set
  // its slot. pread reads the very memory that the client stores into, so this fence puts it after
  // the invalidation as a sequentially consistent load would be: a slot that is not seen here was
  // set by a client that will find the header invalid. It does not matter in which order the words
  // are read, or that one may be read half-changed: that one's client, too, has yet to look.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  alignas(8) std::array<std::byte, kReadBytes> chunk;
  uint64_t end = kReadBytes;  // of the used slots, once it is known
  bool holds = false;
  for (uint64_t at = 0; at < end && !holds; at += kReadBytes) {
    const ssize_t got = pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(at));
    if (got < 0) return true;
    const auto size = static_cast<size_t>(got);
    if (at == 0) {
      if (size < kPinSlotsAt) break;
      end = PinPageBytes(std::min(LoadAs<uint32_t>(chunk.data() + kPinHighWaterAt), slots_max));
    }
    const size_t stop = std::min<uint64_t>(size, end - at);
    for (size_t i = at == 0 ? kPinSlotsAt : 0; i + 8 <= stop && !holds; i += 8) {
      holds = LoadAs<uint64_t>(chunk.data() + i) == generation.value;
    }
    if (size < kReadBytes) break;
  }
  // Who released a pin has read its bytes before the next owner writes them.
  std::atomic_thread_fence(std::memory_order_acquire);
  return holds;
}

}  // namespace moonpool::transport
