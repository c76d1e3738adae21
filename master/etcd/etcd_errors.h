// What a refusal of etcd means, and what can be done about it.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonpool::master {

enum class EtcdErrorKind {
  kFinal,      // the request is refused, wherever it is asked
  kElsewhere,  // not by this member, not now
  kLogin,      // the token is missing or no longer good
};

struct EtcdError {
  EtcdErrorKind kind;
  absl::Status status;  // typed, names the endpoint, with a hint
};

// `code` and `message` are gRPC's; not OK.
EtcdError ExplainEtcdError(absl::string_view endpoint, absl::StatusCode code,
                           absl::string_view message);

}  // namespace moonpool::master
