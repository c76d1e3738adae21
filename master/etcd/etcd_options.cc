#include "master/etcd/etcd_options.h"

#include "absl/strings/str_cat.h"
#include "common/config/host_port.h"
#include "common/error.h"

namespace moonpool::master {
namespace {

// etcd itself advises at most seven members.
constexpr size_t kEndpointsMax = 16;

absl::Status BadOption(absl::string_view what, absl::string_view hint) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what,
                   {.hint = std::string(hint)});
}

}  // namespace

absl::Status Validate(const EtcdOptions& options) {
  if (options.endpoints.empty()) {
    return BadOption("no endpoint of etcd", "name its members as HOST:PORT");
  }
  if (options.endpoints.size() > kEndpointsMax) {
    return BadOption(
        absl::StrCat(options.endpoints.size(), " endpoints of etcd; at most ", kEndpointsMax),
        "name the members of one cluster");
  }
  for (const std::string& endpoint : options.endpoints) {
    const auto parsed = ParseHostPort(endpoint);
    if (!parsed.ok()) return Annotate(parsed.status(), "endpoint of etcd");
    if (parsed->port == 0 || parsed->host.empty()) {
      return BadOption(absl::StrCat("endpoint of etcd: ", endpoint, " cannot be called"),
                       "name a host and the port of etcd's clients, usually 2379");
    }
  }
  if (options.cert_file.empty() != options.key_file.empty()) {
    return BadOption("of etcd's client certificate and its key only one is set", "set both");
  }
  if (!options.cert_file.empty() && options.ca_file.empty()) {
    return BadOption("a client certificate for etcd, but no CA", "set the CA that etcd's is of");
  }
  if (options.user.empty() != options.password_file.empty()) {
    return BadOption("of etcd's user and password file only one is set", "set both");
  }
  return absl::OkStatus();
}

}  // namespace moonpool::master
