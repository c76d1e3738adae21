// Any bytes as an HTTP request: refused, incomplete or parsed, and within its bounds.

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/http/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto request = moonpool::ParseHttpRequest(bytes);
  if (!request.ok()) return 0;
  if (!request->has_value()) {
    MP_CHECK(size < moonpool::kHttpRequestBytesMax, "asks for more than the limit", size);
    return 0;
  }
  MP_CHECK(!(*request)->path.empty(), "a path starts with a slash");
  return 0;
}
