#include "common/http/http_request.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace moonpool {
namespace {

absl::StatusOr<std::string> PercentDecode(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    if (digits.size() != 2 || !absl::ascii_isxdigit(static_cast<unsigned char>(digits[0])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(digits[1]))) {
      return absl::InvalidArgumentError("bad percent-encoding");
    }
    out.append(absl::HexStringToBytes(digits));
    i += 2;
  }
  return out;
}

absl::StatusOr<HttpRequest> ParseRequestLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || words[0].empty() || !absl::StartsWith(words[1], "/") ||
      !absl::StartsWith(words[2], "HTTP/1.")) {
    return absl::InvalidArgumentError("no HTTP/1 request line");
  }
  HttpRequest request;
  request.method = std::string(words[0]);
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  ASSIGN_OR_RETURN(request.path, PercentDecode(target.first));
  for (const absl::string_view pair : absl::StrSplit(target.second, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> item =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    ASSIGN_OR_RETURN(std::string name, PercentDecode(item.first));
    ASSIGN_OR_RETURN(request.query[std::move(name)], PercentDecode(item.second));
  }
  return request;
}

}  // namespace

absl::StatusOr<std::optional<HttpRequest>> ParseHttpRequest(absl::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == absl::string_view::npos) {
    if (bytes.size() < kHttpRequestBytesMax) return std::nullopt;
    return absl::ResourceExhaustedError("request too long");
  }
  ASSIGN_OR_RETURN(HttpRequest request, ParseRequestLine(bytes.substr(0, bytes.find("\r\n"))));
  return request;
}

}  // namespace moonpool
