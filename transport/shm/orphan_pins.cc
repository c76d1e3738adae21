#include "transport/shm/orphan_pins.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/shm/pin_file.h"

namespace moonpool::transport {
namespace {

absl::Status Failed(absl::string_view call, const std::string& path, int error) {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                   absl::StrCat(call, " ", path, ": ", std::strerror(error)),
                   {.hint = "without it, views of the pool cannot be told: start with a new pool"});
}

// The page of that name in the folder, opened; or nothing, where it is no page of ours.
absl::StatusOr<UniqueFd> OpenPage(int folder, const std::string& folder_name, const char* name) {
  if (!IsPinFileName(name)) return UniqueFd();
  struct stat file {};
  if (fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed("stat", absl::StrCat(folder_name, "/", name), errno);
  }
  if (!S_ISREG(file.st_mode) || file.st_uid != geteuid()) return UniqueFd();
  UniqueFd fd(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return Failed("open", absl::StrCat(folder_name, "/", name), errno);
  return fd;
}

}  // namespace

bool OrphanPins::Holds(Generation generation) const {
  if (has_ended_.load(std::memory_order_acquire)) return false;
  if (!mapped_claims_->contains(generation) &&
      !PinFileHolds(file_.get(), kPinSlotsMax, generation)) {
    return false;
  }
  return !has_ended();
}

bool OrphanPins::has_ended() const {
  if (has_ended_.load(std::memory_order_acquire)) return true;
  // Ours once it is nobody else's, and the next to ask gets it again.
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (!has_ended_.exchange(true, std::memory_order_acq_rel)) unlink(path_.c_str());
  return true;
}

absl::StatusOr<std::vector<std::unique_ptr<OrphanPins>>> AdoptPinPages(
    const std::string& pins_dir, const OrphanPins::Claims& mapped_claims, size_t files_max) {
  std::vector<std::unique_ptr<OrphanPins>> orphans;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(pins_dir.c_str()), closedir);
  if (folder == nullptr) {
    if (errno == ENOENT) return orphans;
    return Failed("open", pins_dir, errno);
  }
  const auto claims = std::make_shared<const OrphanPins::Claims>(mapped_claims);
  constexpr size_t kDots = 2;  // "." and ".."
  for (size_t entries = 0;; ++entries) {
    errno = 0;
    const dirent* const entry = readdir(folder.get());
    if (entry == nullptr && errno != 0) return Failed("read", pins_dir, errno);
    if (entry == nullptr) return orphans;
    if (entries == files_max + kDots) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       absl::StrCat(pins_dir, " has more than ", files_max, " files"),
                       {.hint = "remove what is no page of pins (pins-*) from it"});
    }
    ASSIGN_OR_RETURN(UniqueFd fd, OpenPage(dirfd(folder.get()), pins_dir, entry->d_name));
    if (!fd.valid()) continue;
    auto pins = std::make_unique<OrphanPins>(std::move(fd),
                                             absl::StrCat(pins_dir, "/", entry->d_name), claims);
    if (!pins->has_ended()) orphans.push_back(std::move(pins));
  }
}

}  // namespace moonpool::transport
