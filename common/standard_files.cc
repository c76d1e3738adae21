#include "common/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"

namespace moonpool {

void HoldStandardFiles() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is taken, which is this one. Opened the wrong way round on purpose.
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    MP_CHECK(opened == fd, "cannot open /dev/null in the place of a closed standard file", fd);
  }
}

absl::Status FlushStandardOutput() {
  errno = 0;
  const bool is_flushed = std::fflush(stdout) == 0;
  if (is_flushed && std::ferror(stdout) == 0) return absl::OkStatus();
  // The reason of an earlier failure is not known any more.
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                   absl::StrCat("cannot write to standard output",
                                errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno))),
                   {.hint = "what was printed is incomplete: make room, or write elsewhere"});
}

}  // namespace moonpool
