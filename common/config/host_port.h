// "HOST:PORT" in its three spellings: name, IPv4, and [IPv6].
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonpool {

struct HostPort {
  std::string host;  // without the brackets of IPv6
  uint16_t port = 0;

  // "10.0.0.1:7400", "[::1]:7400"
  std::string ToString() const;
  bool operator==(const HostPort&) const = default;
};

// Port 0 is accepted: it means "any free one" to whoever listens.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// What a server that could not listen (UNAVAILABLE) says to people: it does not know by which flag
// its address came, its owner does. Other statuses pass as they are.
absl::Status WithPortHint(const absl::Status& status, absl::string_view flag);

}  // namespace moonpool
