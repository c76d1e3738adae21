#include "common/rpc/grpc/unreachable.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/error.h"

namespace moonpool {
namespace {

// What gRPC says, and what is meant. In this order: its text names the last of several attempts.
constexpr std::pair<absl::string_view, absl::string_view> kCauses[] = {
    {"DNS resolution failed", "the name does not resolve"},
    {"Connection refused", "connection refused"},
    {"No route to host", "no route to the host"},
    {"Network is unreachable", "the network is unreachable"},
    {"Connection timed out", "connection timed out"},
    {"shutting down", "it shuts down"},
    {"Socket closed", "the connection ended"},
    {"Connection reset by peer", "the connection ended"},
};

}  // namespace

std::string DescribeUnreachable(absl::string_view address, absl::string_view grpc_message) {
  for (const auto& [text, cause] : kCauses) {
    if (absl::StrContains(grpc_message, text)) return absl::StrCat(address, " (", cause, ")");
  }
  return std::string(address);
}

absl::Status NoMasterAnswers(const std::vector<std::string>& tried) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   absl::StrCat("no master answers at ", absl::StrJoin(tried, ", ")),
                   {.hint = "is moonpool-master running there?"});
}

absl::Status NoMasterLeads(const std::vector<std::string>& tried) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader,
                   absl::StrCat("no master leads: ", absl::StrJoin(tried, ", ")),
                   {.hint = "masters elect another leader within seconds; do they reach etcd, and "
                            "do you reach all of them?"});
}

}  // namespace moonpool
