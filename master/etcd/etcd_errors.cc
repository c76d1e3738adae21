#include "master/etcd/etcd_errors.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;

// Where gRPC's code does not tell: a word of the message decides. The messages are etcd's
// (etcdserver/api/v3rpc/rpctypes) and those of the TLS library; all have been stable for years, and
// one that is not known keeps its code and loses only its hint.
struct Known {
  absl::string_view words;
  EtcdErrorKind kind;
  StatusCode code;
  ErrorReason reason;
  absl::string_view hint;
};

constexpr absl::string_view kNoAnswerInTime =
    "check that etcd has a leader (etcdctl endpoint status) and that the network lets this host "
    "reach it";

constexpr Known kKnown[] = {
    {"certificate verify failed", EtcdErrorKind::kElsewhere, StatusCode::kUnavailable,
     ErrorReason::kPeerUnreachable,
     "its certificate is not of the CA that was set, or has run out; check the CA file"},
    {"Peer name", EtcdErrorKind::kElsewhere, StatusCode::kUnavailable,
     ErrorReason::kPeerUnreachable,
     "its certificate is for another name; use an endpoint that the certificate names"},
    {"user name is empty", EtcdErrorKind::kLogin, StatusCode::kUnauthenticated,
     ErrorReason::kBadArgument, "etcd has authentication on; set a user and its password file"},
    {"revision of auth store is old", EtcdErrorKind::kLogin, StatusCode::kUnauthenticated,
     ErrorReason::kBadArgument, "etcd's users have just changed; it is tried again"},
    {"invalid auth token", EtcdErrorKind::kLogin, StatusCode::kUnauthenticated,
     ErrorReason::kBadArgument, "the login has run out; it is tried again"},
    {"invalid user ID or password", EtcdErrorKind::kFinal, StatusCode::kUnauthenticated,
     ErrorReason::kBadArgument, "check the user and the password file"},
    {"permission denied", EtcdErrorKind::kFinal, StatusCode::kPermissionDenied,
     ErrorReason::kBadArgument,
     "the user needs to read and write all keys below the prefix: etcdctl role grant-permission "
     "ROLE readwrite --prefix=true PREFIX/"},
    {"database space exceeded", EtcdErrorKind::kFinal, StatusCode::kResourceExhausted,
     ErrorReason::kLimitReached,
     "etcd is full: compact and defragment it, then etcdctl alarm disarm"},
    // The caller's deadline by the member's own clock, which may say so before gRPC's does here.
    {"context deadline exceeded", EtcdErrorKind::kElsewhere, StatusCode::kDeadlineExceeded,
     ErrorReason::kPeerUnreachable, kNoAnswerInTime},
    {"lease not found", EtcdErrorKind::kFinal, StatusCode::kNotFound, ErrorReason::kExpired,
     "a new lease has to be asked for"},
};

Known ByCode(StatusCode code) {
  switch (code) {
    case StatusCode::kUnauthenticated:
      return {"", EtcdErrorKind::kLogin, code, ErrorReason::kBadArgument,
              "check the user and the password file"};
    case StatusCode::kDeadlineExceeded:
      return {"", EtcdErrorKind::kElsewhere, code, ErrorReason::kPeerUnreachable, kNoAnswerInTime};
    case StatusCode::kUnavailable:
    case StatusCode::kUnknown:
    case StatusCode::kInternal:
    case StatusCode::kAborted:
    case StatusCode::kCancelled:
      return {"", EtcdErrorKind::kElsewhere, StatusCode::kUnavailable,
              ErrorReason::kPeerUnreachable,
              "check that etcd runs there, that the network lets this host reach it, and that "
              "both sides agree on TLS"};
    case StatusCode::kUnimplemented:
      return {"", EtcdErrorKind::kElsewhere, code, ErrorReason::kPeerVersion,
              "check that the endpoint is an etcd of version 3.4 or later"};
    case StatusCode::kResourceExhausted:
      return {"", EtcdErrorKind::kElsewhere, code, ErrorReason::kLimitReached,
              "etcd has more to do than it can; look at its metrics"};
    default:
      return {"", EtcdErrorKind::kFinal, code, ErrorReason::kUnspecified, "look at etcd's log"};
  }
}

}  // namespace

EtcdError ExplainEtcdError(absl::string_view endpoint, StatusCode code, absl::string_view message) {
  Known known = ByCode(code);
  for (const Known& candidate : kKnown) {
    if (absl::StrContains(message, candidate.words)) {
      known = candidate;
      break;
    }
  }
  return {known.kind,
          MakeError(known.code, known.reason, absl::StrCat("etcd at ", endpoint, ": ", message),
                    {.hint = std::string(known.hint)})};
}

}  // namespace moonpool::master
