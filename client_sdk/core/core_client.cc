#include "client_sdk/core/core_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/get_path.h"
#include "client_sdk/core/look_path.h"
#include "client_sdk/core/put_path.h"
#include "client_sdk/core/spare_path.h"
#include "client_sdk/core/view_path.h"
#include "common/error.h"
#include "common/names.h"
#include "common/rpc/status_proto.h"

namespace moonpool::client {
namespace {

// Statuses of the master, one for each of the keys that were worth asking about.
class KeyStatuses {
 public:
  // `call`: whether there is anything to ask for any of them.
  KeyStatuses(absl::Span<const std::string> keys, const absl::Status& call)
      : keys_(keys), results_(keys.size()) {
    for (size_t i = 0; i < keys.size(); ++i) {
      results_[i] = call.ok() ? CheckKey(keys[i]) : call;
      if (results_[i].ok()) asked_.push_back(i);
    }
  }

  // Fills the request with the keys; false when there are none to ask about.
  template <typename Request>
  bool Ask(Request* request) const {
    for (const size_t index : asked_) request->add_keys(keys_[index]);
    return !asked_.empty();
  }

  // `outcome_of` makes the caller's status of the master's, given the key.
  template <typename Response, typename OutcomeOf>
  void Take(const absl::StatusOr<Response>& response, OutcomeOf outcome_of) {
    const bool fits =
        response.ok() && static_cast<size_t>(response->results_size()) == asked_.size();
    for (size_t i = 0; i < asked_.size(); ++i) {
      const std::string& key = keys_[asked_[i]];
      absl::Status& result = results_[asked_[i]];
      if (fits) {
        result = outcome_of(response->results(static_cast<int>(i)), key);
      } else if (response.ok()) {
        result = absl::InternalError("the master answered with another number of keys");
      } else {
        result = AnnotateKey(response.status(), key);
      }
    }
  }

  std::vector<absl::Status> TakeResults() { return std::move(results_); }

 private:
  absl::Span<const std::string> keys_;
  std::vector<absl::Status> results_;
  std::vector<size_t> asked_;  // indexes
};

}  // namespace

absl::Status CoreClient::OpenNamespace(absl::string_view fingerprint, const CallOptions& options) {
  v1::OpenNamespaceRequest request;
  request.set_fingerprint(fingerprint.data(), fingerprint.size());
  const absl::StatusOr<v1::OpenNamespaceResponse> response = session_.Call(
      &MasterStub::OpenNamespace, request, session_.ContextOf(options), session_.policy());
  if (!response.ok()) {
    // That no master can be reached has nothing to do with the namespace.
    if (ReasonOf(response.status()) == ErrorReason::kPeerUnreachable) return response.status();
    return Annotate(response.status(),
                    absl::StrCat("open namespace ", session_.options().name_space));
  }
  // What holds, also for who named none: parts carry it, and so do those that are looked for.
  const bool is_other = !fingerprint.empty() && response->fingerprint() != fingerprint;
  if (is_other || !IsLabel(response->fingerprint())) {
    return absl::InternalError("the master opened the namespace with another fingerprint");
  }
  session_.SetFingerprint(response->fingerprint());
  return absl::OkStatus();
}

std::vector<absl::Status> CoreClient::PutMany(absl::Span<const PutItem> items,
                                              const PutOptions& options) {
  return client::PutMany(session_, items, options, session_.ContextOf(options.call));
}

std::vector<absl::StatusOr<size_t>> CoreClient::GetMany(absl::Span<const GetItem> items,
                                                        const GetOptions& options) {
  return client::GetMany(session_, items, Verifies(options), session_.ContextOf(options.call));
}

std::vector<absl::StatusOr<size_t>> CoreClient::GetMany(absl::Span<const std::string> keys,
                                                        Allocate allocate,
                                                        const GetOptions& options) {
  return client::GetMany(session_, keys, allocate, Verifies(options),
                         session_.ContextOf(options.call));
}

absl::StatusOr<std::string> CoreClient::Get(absl::string_view key, const GetOptions& options) {
  const std::string wanted(key);
  std::string value;
  const absl::StatusOr<size_t> read =
      GetMany(
          {&wanted, 1},
          [&value](size_t, uint64_t size_bytes) -> absl::StatusOr<MutableBuffer> {
            value.resize(size_bytes);
            return MutableBuffer(reinterpret_cast<std::byte*>(value.data()), value.size());
          },
          options)
          .front();
  if (!read.ok()) return read.status();
  value.resize(*read);
  return value;
}

absl::StatusOr<View> CoreClient::GetView(absl::string_view key, const GetOptions& options) {
  return client::GetView(session_, key, Verifies(options), session_.ContextOf(options.call));
}

std::vector<absl::StatusOr<View>> CoreClient::GetViewMany(absl::Span<const std::string> keys,
                                                          const GetOptions& options) {
  return client::GetViewMany(session_, keys, Verifies(options), session_.ContextOf(options.call));
}

std::vector<absl::Status> CoreClient::Exists(absl::Span<const std::string> keys,
                                             const CallOptions& options) {
  const CallContext context = session_.ContextOf(options);
  KeyStatuses statuses(keys, session_.CheckCall(keys.size(), context));
  v1::ExistsRequest request;
  if (statuses.Ask(&request)) {
    statuses.Take(
        session_.Call(&MasterStub::Exists, request, context, session_.policy()),
        [](const v1::Status& status, absl::string_view key) { return MissOf(status, key); });
  }
  return statuses.TakeResults();
}

std::vector<absl::StatusOr<Description>> CoreClient::Describe(absl::Span<const std::string> keys,
                                                              const CallOptions& options) {
  return client::Describe(session_, keys, session_.ContextOf(options));
}

absl::StatusOr<KeyPage> CoreClient::ListKeys(absl::string_view prefix, const ListOptions& options) {
  return client::ListKeys(session_, prefix, options, session_.ContextOf(options.call));
}

std::vector<absl::Status> CoreClient::Remove(absl::Span<const std::string> keys,
                                             const CallOptions& options) {
  const CallContext context = session_.ContextOf(options);
  KeyStatuses statuses(keys, session_.CheckCall(keys.size(), context));
  v1::RemoveRequest request;
  if (statuses.Ask(&request)) {
    CallPolicy policy = session_.policy();
    policy.may_hold = true;
    statuses.Take(session_.Call(&MasterStub::Remove, request, context, policy),
                  [](const v1::Status& status, absl::string_view key) {
                    return AnnotateKey(StatusFromProto(status), key);
                  });
    for (const std::string& key : keys) session_.locations().Erase(key);
  }
  return statuses.TakeResults();
}

void CoreClient::Close() { GiveBackSpares(session_); }

absl::StatusOr<PrefixMatch> CoreClient::MatchPrefix(absl::Span<const std::string> keys,
                                                    const MatchOptions& options) {
  const CallContext context = session_.ContextOf(options.call);
  RETURN_IF_ERROR(session_.CheckCall(keys.size(), context));
  PrefixMatch match;
  if (keys.empty()) return match;
  v1::MatchPrefixRequest request;
  for (const std::string& key : keys) {
    RETURN_IF_ERROR(CheckKey(key));
    request.add_keys(key);
  }
  request.set_lease_ms(
      static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Milliseconds(options.hold))));
  ASSIGN_OR_RETURN(const MatchPrefixAnswer answer,
                   session_.Call(&MasterStub::MatchPrefix, request, context, session_.policy()));
  if (answer.locations.size() > keys.size()) {
    return absl::InternalError("the master matched more keys than it was asked about");
  }
  const ResponseNodes nodes(answer.nodes, session_.peers());
  absl::Duration held = absl::InfiniteDuration();
  for (const ToldLocation& found : answer.locations) {
    ASSIGN_OR_RETURN(LocationPtr location, nodes.Resolve(found));
    match.sizes.push_back(location->size_bytes());
    held = std::min(held, DurationFromMs(found.lease_ms));
    session_.locations().Insert(keys[match.matched], std::move(location));
    ++match.matched;
  }
  if (match.matched > 0) match.held = held;
  if (match.matched < keys.size()) match.miss = MissOf(answer.miss, keys[match.matched]);
  return match;
}

}  // namespace moonpool::client
