// The words for a master that cannot be reached: the same for an engine and for a person at the
// command line. gRPC's own are of its inside ("failed to connect to all addresses; last error:
// UNKNOWN: ipv4:...").
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonpool {

// "db:7400 (the name does not resolve)", "10.0.0.1:7400 (connection refused)"; the address alone
// when gRPC's message holds no cause that we know.
std::string DescribeUnreachable(absl::string_view address, absl::string_view grpc_message);

// UNAVAILABLE, PEER_UNREACHABLE: "no master answers at A, B". `tried`: what DescribeUnreachable
// made of each.
absl::Status NoMasterAnswers(const std::vector<std::string>& tried);

// UNAVAILABLE, NOT_LEADER: "no master leads: A (follows), B (connection refused)".
absl::Status NoMasterLeads(const std::vector<std::string>& tried);

}  // namespace moonpool
