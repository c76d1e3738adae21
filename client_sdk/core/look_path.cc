#include "client_sdk/core/look_path.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/location.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::client {
namespace {

// What the master grants in one answer (proto/moonpool/v1/master.proto).
constexpr size_t kListedPerCall = 10'000;

std::vector<std::string> NodesOf(const ReplicaPlaces& replica) {
  std::vector<std::string> names;
  for (const PartPlace& part : replica.parts) {
    if (std::find(names.begin(), names.end(), part.peer->name()) == names.end()) {
      names.push_back(part.peer->name());
    }
  }
  return names;
}

Description DescriptionOf(const Location& location) {
  Description description{.size_bytes = location.size_bytes()};
  for (const ReplicaPlaces& replica : location.replicas()) {
    description.replicas.push_back(NodesOf(replica));
  }
  return description;
}

// The answer about one key, which the cache learns, too.
absl::StatusOr<Description> Take(Session& session, const LocateAnswer::Result& result,
                                 const ResponseNodes& nodes, const std::string& key) {
  RETURN_IF_ERROR(MissOf(result.status, key));
  ASSIGN_OR_RETURN(LocationPtr location, nodes.Resolve(result.location));
  Description description = DescriptionOf(*location);
  session.locations().Insert(key, std::move(location));
  return description;
}

// One answer of the master: at most `limit` keys, often fewer.
absl::StatusOr<KeyPage> ListPiece(Session& session, absl::string_view prefix,
                                  const std::string& after, size_t limit,
                                  const CallContext& context) {
  limit = std::min(limit, kListedPerCall);
  v1::ListObjectsRequest request;
  request.set_prefix(prefix.data(), prefix.size());
  request.set_page_token(after);
  request.set_limit(static_cast<uint32_t>(limit));
  ASSIGN_OR_RETURN(v1::ListObjectsResponse response,
                   session.Call(&MasterStub::ListObjects, request, context, session.policy()));
  // Else this would go on until the deadline.
  const bool repeats = !after.empty() && response.next_page_token() == after;
  if (repeats || static_cast<size_t>(response.objects_size()) > limit) {
    return absl::InternalError("the master sent a page that cannot be");
  }
  KeyPage piece{.next = std::move(*response.mutable_next_page_token())};
  for (v1::ObjectEntry& object : *response.mutable_objects()) {
    piece.keys.push_back(std::move(*object.mutable_key()));
  }
  return piece;
}

}  // namespace

std::vector<absl::StatusOr<Description>> Describe(Session& session,
                                                  absl::Span<const std::string> keys,
                                                  const CallContext& context) {
  using Results = std::vector<absl::StatusOr<Description>>;
  if (const absl::Status bad = session.CheckCall(keys.size(), context); !bad.ok()) {
    return Results(keys.size(), bad);
  }
  Results results(keys.size(), Description{});
  std::vector<size_t> asked;  // indexes
  v1::LocateRequest request;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (absl::Status bad = CheckKey(keys[i]); !bad.ok()) {
      results[i] = std::move(bad);
    } else {
      asked.push_back(i);
      request.add_keys(keys[i]);
    }
  }
  if (asked.empty()) return results;
  absl::StatusOr<LocateAnswer> answer =
      session.Call(&MasterStub::Locate, request, context, session.policy());
  if (answer.ok() && answer->results.size() != asked.size()) {
    answer = absl::InternalError("the master answered with another number of keys");
  }
  if (!answer.ok()) {
    for (const size_t index : asked) results[index] = AnnotateKey(answer.status(), keys[index]);
    return results;
  }
  const ResponseNodes nodes(answer->nodes, session.peers());
  for (size_t i = 0; i < asked.size(); ++i) {
    results[asked[i]] = Take(session, answer->results[i], nodes, keys[asked[i]]);
  }
  return results;
}

absl::StatusOr<KeyPage> ListKeys(Session& session, absl::string_view prefix,
                                 const ListOptions& options, const CallContext& context) {
  if (options.limit == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "a page of no keys", {.hint = "ask for at least one"});
  }
  KeyPage page{.next = options.after};
  do {
    absl::StatusOr<KeyPage> piece =
        ListPiece(session, prefix, page.next, options.limit - page.keys.size(), context);
    if (!piece.ok()) {
      // What was looked at is not looked at again: whoever goes on from here meets the error first.
      if (page.next == options.after || absl::IsCancelled(piece.status())) return piece.status();
      return page;
    }
    page.keys.insert(page.keys.end(), std::make_move_iterator(piece->keys.begin()),
                     std::make_move_iterator(piece->keys.end()));
    page.next = std::move(piece->next);
  } while (!page.next.empty() && page.keys.size() < options.limit);
  return page;
}

}  // namespace moonpool::client
