#include "common/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool {

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
