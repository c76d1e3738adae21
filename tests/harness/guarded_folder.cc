#include "tests/harness/guarded_folder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace moonpool::harness {
namespace {

// Children of the process that ended may write for a moment longer.
constexpr int kAttempts = 100;
constexpr int kPauseMillis = 20;

void RemoveAll(const std::string& path) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error && !std::filesystem::exists(path, error)) return;
    poll(nullptr, 0, kPauseMillis);
  }
}

[[noreturn]] void Guard(int life, const std::string& path) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  setsid();
  // Whoever waits for the end of the output of the process waits for the process alone.
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(standard);
  char nothing;
  while (read(life, &nothing, 1) < 0 && errno == EINTR) {
  }
  RemoveAll(path);
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuardedFolder>> GuardedFolder::Create(const std::string& parent,
                                                                     const std::string& prefix) {
  std::string path = absl::StrCat(parent, "/", prefix, getpid(), "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("make the folder ", path));
  }
  std::unique_ptr<GuardedFolder> folder(new GuardedFolder(path));
  RETURN_IF_ERROR(folder->StartGuard());
  return folder;
}

absl::Status GuardedFolder::StartGuard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  life_ = UniqueFd(ends[1]);
  const UniqueFd watched(ends[0]);
  guard_ = fork();
  if (guard_ < 0) return absl::ErrnoToStatus(errno, "fork");
  if (guard_ == 0) {
    close(ends[1]);
    Guard(ends[0], path_);
  }
  return absl::OkStatus();
}

GuardedFolder::~GuardedFolder() {
  life_.Close();
  if (guard_ <= 0) {
    RemoveAll(path_);
    return;
  }
  while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace moonpool::harness
