#include "common/config/host_port.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool {

std::string HostPort::ToString() const {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto bad = absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(text),
                   "\" is no HOST:PORT; write for example 10.0.0.1:7400 or [::1]:7400"));
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return bad;
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port_text = text.substr(colon + 1);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ':')) {
    return bad;  // a bare IPv6 address: where its port starts is anybody's guess
  }
  const bool has_odd_byte = host.find_first_of("[]/\"") != absl::string_view::npos ||
                            !std::all_of(host.begin(), host.end(), [](char c) {
                              return absl::ascii_isgraph(static_cast<unsigned char>(c));
                            });
  uint32_t port = 0;
  if (host.empty() || has_odd_byte || port_text.find_first_not_of("0123456789") != port_text.npos ||
      !absl::SimpleAtoi(port_text, &port) || port > 65535) {
    return bad;
  }
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

absl::Status WithPortHint(const absl::Status& status, absl::string_view flag) {
  if (!absl::IsUnavailable(status)) return status;
  return MakeError(
      status.code(), ErrorReason::kUnspecified, status.message(),
      {.hint = absl::StrCat("choose another address with ", flag, "; port 0 takes a free one")});
}

}  // namespace moonpool
