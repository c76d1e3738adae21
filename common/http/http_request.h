// The little HTTP/1.1 that scrapers and probes speak: a request line, headers we skip, no body.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonpool {

inline constexpr size_t kHttpRequestBytesMax = 8 * 1024;

struct HttpRequest {
  std::string method;                        // "GET"
  std::string path;                          // "/metrics", percent-decoded
  std::map<std::string, std::string> query;  // "?top=10": {"top", "10"}, percent-decoded
};

// What came so far on a connection. nullopt: the request goes on, read more.
// InvalidArgument: no HTTP. ResourceExhausted: longer than kHttpRequestBytesMax.
absl::StatusOr<std::optional<HttpRequest>> ParseHttpRequest(absl::string_view bytes);

}  // namespace moonpool
