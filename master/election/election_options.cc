#include "master/election/election_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/config/host_port.h"
#include "common/error.h"

namespace moonpool::master {
namespace {

absl::Status BadOption(absl::string_view what, absl::string_view hint) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what,
                   {.hint = std::string(hint)});
}

}  // namespace

absl::Status Validate(const ElectionOptions& options) {
  const std::string& prefix = options.prefix;
  const bool is_printable =
      std::all_of(prefix.begin(), prefix.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (prefix.size() < 2 || prefix.size() > 255 || prefix.front() != '/' || prefix.back() == '/' ||
      !is_printable) {
    return BadOption(absl::StrCat("the prefix in etcd cannot be \"", prefix, "\""),
                     "write it like /moonpool/CLUSTER, with no slash at the end");
  }
  const auto address = ParseHostPort(options.address);
  if (!address.ok()) return Annotate(address.status(), "advertised address of this master");
  if (address->port == 0 || address->host.empty() || address->host == "0.0.0.0" ||
      address->host == "::") {
    return BadOption(absl::StrCat("nobody can call this master at the address ", options.address),
                     "advertise a host name or address that clients and nodes reach, and the port");
  }
  if (options.lease < kElectionLeaseMin || options.lease > kElectionLeaseMax ||
      options.lease != absl::Trunc(options.lease, absl::Seconds(1))) {
    return BadOption(
        absl::StrCat("the leader's lease cannot be ", absl::FormatDuration(options.lease)),
        "whole seconds, 1s to 60s");
  }
  return absl::OkStatus();
}

}  // namespace moonpool::master
