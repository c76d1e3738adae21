#include "client_sdk/core/session.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/names.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "common/version.h"

namespace moonpool::client {
namespace {

// An attempt that gets less cannot be told from a slow network.
constexpr absl::Duration kAttemptMin = absl::Milliseconds(250);
// The master's answer to a call that it held until the timeout has to travel, too.
constexpr absl::Duration kAnswerMarginMax = absl::Milliseconds(100);
// Of InfiniteFuture deadlines.
constexpr absl::Duration kTimeoutMax = absl::Hours(1);

// Keys in messages: readable, and bounded.
std::string Printable(absl::string_view key) {
  constexpr size_t kShown = 64;
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, kShown)),
                      key.size() > kShown ? "...\"" : "\"");
}

}  // namespace

Session::Session(MasterStub& master, transport::Waiter& waiter, const Logger& logger,
                 const SessionOptions& options)
    : options_(options),
      part_namespace_(options.name_space),
      master_(master),
      waiter_(waiter),
      random_(options.seed),
      peers_(options.peers, waiter.clock(), random_, counters_, logger),
      locations_(options.location_cache_entries),
      spares_(options.spares) {}

void Session::SetFingerprint(absl::string_view fingerprint) {
  fingerprint_ = std::string(fingerprint);
  part_namespace_ = JoinPartNamespace({options_.name_space, fingerprint});
}

absl::Status Session::Reopen(const CallContext& context, const CallPolicy& policy) {
  v1::OpenNamespaceRequest request;
  request.set_fingerprint(fingerprint_);
  return Call(&MasterStub::OpenNamespace, request, context, policy).status();
}

CallContext Session::ContextOf(const CallOptions& call) const {
  const absl::Duration timeout =
      call.timeout == absl::ZeroDuration() ? options_.timeout : call.timeout;
  return {.deadline = clock().Now() + timeout, .cancel = call.cancel};
}

absl::Status Session::CheckCall(size_t keys, const CallContext& context) const {
  if (keys <= kMaxBatchKeys) return context.Check(clock());
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge,
                   absl::StrCat("the batch has ", keys, " keys, more than ", kMaxBatchKeys),
                   {.hint = "split it"});
}

void Session::FillHeader(const CallPolicy& policy, v1::RequestHeader* header) {
  header->mutable_version()->set_major(kWireMajor);
  header->mutable_version()->set_minor(kWireMinor);
  header->set_client_id(options_.client_id);
  if (policy.names_host) header->set_host_id(options_.peers.host_id);
  header->set_namespace_(options_.name_space);
  for (const Touched& touched : locations_.TakeTouched()) {
    v1::Touch* touch = header->add_touched();
    touch->set_handle(touched.handle);
    touch->set_generation(touched.generation.value);
  }
}

CallContext Session::NextAttempt(const CallContext& context, const CallPolicy& policy,
                                 v1::RequestHeader* header) {
  counters_.master_calls.Add();
  const absl::Time now = clock().Now();
  const absl::Duration remaining = std::min(context.deadline - now, kTimeoutMax);
  const absl::Duration given =
      policy.may_hold ? remaining : std::min(remaining, std::max(kAttemptMin, remaining / 3));
  const absl::Duration margin = std::min(given / 10, kAnswerMarginMax);
  header->set_timeout_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(given - margin)));
  return {.deadline = now + given, .cancel = context.cancel};
}

bool Session::ShouldRepeat(const absl::Status& status, const CallContext& context,
                           const CallPolicy& policy, absl::Time begun) const {
  if (absl::IsUnavailable(status)) {
    const bool is_election = ReasonOf(status) == ErrorReason::kNotLeader;
    return clock().Now() - begun < (is_election ? policy.election_max : policy.outage_max);
  }
  return absl::IsDeadlineExceeded(status) && context.Check(clock()).ok();
}

absl::Status Session::CheckVersion(const v1::ResponseHeader& header) {
  if (header.version().major() == kWireMajor) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion,
      absl::StrCat("the master speaks version ", header.version().major(), ".",
                   header.version().minor(), ", this client ", kWireMajor, ".", kWireMinor),
      {.hint = "use a client and a master of the same major version"});
}

absl::Status CheckKey(absl::string_view key) {
  if (key.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty, "the key is empty",
                     {.hint = "name an object: 1 to 1024 bytes"});
  }
  if (key.size() > kMaxKeyBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong,
                     absl::StrCat("the key has ", key.size(), " bytes, more than ", kMaxKeyBytes),
                     {.hint = "hash long keys", .key = std::string(key.substr(0, 64))});
  }
  return absl::OkStatus();
}

absl::Status AnnotateKey(const absl::Status& status, absl::string_view key) {
  if (status.ok()) return status;
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail{});
  if (!detail.key.empty()) return status;
  detail.key = std::string(key);
  return WithDetail(Annotate(status, absl::StrCat("key ", Printable(key))), detail);
}

absl::Status MissOf(const v1::Status& status, absl::string_view key) {
  return MissOf(StatusFromProto(status), key);
}

absl::Status MissOf(const absl::Status& status, absl::string_view key) {
  if (absl::IsUnavailable(status) && ReasonOf(status) == ErrorReason::kNodeLost) {
    const absl::Status miss(absl::StatusCode::kNotFound, status.message());
    return AnnotateKey(WithDetail(miss, DetailOf(status).value_or(ErrorDetail{})), key);
  }
  return AnnotateKey(status, key);
}

absl::StatusOr<LocationPtr> FindOrLocate(Session& session, absl::string_view key,
                                         const CallContext& context) {
  if (LocationPtr known = session.locations().Find(key)) return known;
  v1::LocateRequest request;
  request.add_keys(key.data(), key.size());
  ASSIGN_OR_RETURN(const LocateAnswer answer,
                   session.Call(&MasterStub::Locate, request, context, session.policy()));
  if (answer.results.size() != 1) {
    return absl::InternalError("the master answered with another number of keys");
  }
  RETURN_IF_ERROR(MissOf(answer.results[0].status, key));
  const ResponseNodes nodes(answer.nodes, session.peers());
  ASSIGN_OR_RETURN(LocationPtr location, nodes.Resolve(answer.results[0].location));
  return session.locations().Insert(key, std::move(location));
}

}  // namespace moonpool::client
