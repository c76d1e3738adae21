#include "common/check.h"

#include <cstdio>
#include <cstdlib>

namespace moonpool {

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  // stdio, not the logger: the logger may be what is broken.
  std::fprintf(stderr, "CHECK failed at %s:%d: %s: %s\n", file, line, condition, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace moonpool
