// Broken invariants end the process, in release builds too: wrong bytes are worse than a crash.
//
//   MP_CHECK(offset < segment_bytes, "extent outside its segment", offset, segment_bytes);
//
// The message and the values go to stderr, then abort(). For faults that come from outside
// (a peer, a disk, a caller) return an absl::Status instead.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace moonpool {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

namespace check_internal {
template <typename... Values>
std::string Describe(absl::string_view message, const Values&... values) {
  std::string text(message);
  (absl::StrAppend(&text, " [", values, "]"), ...);
  return text;
}
}  // namespace check_internal

}  // namespace moonpool

#define MP_CHECK(condition, ...)                                                  \
  do {                                                                            \
    if (!(condition)) [[unlikely]] {                                              \
      ::moonpool::CheckFailed(__FILE__, __LINE__, #condition,                     \
                              ::moonpool::check_internal::Describe(__VA_ARGS__)); \
    }                                                                             \
  } while (false)
