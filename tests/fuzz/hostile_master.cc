#include "tests/fuzz/hostile_master.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_proto.h"
#include "common/version.h"

namespace moonpool::client {
namespace {

constexpr uint32_t kTerm = 8;

}  // namespace

int HostileMaster::CountFor(int keys) {
  return feed_.OneIn(16) ? static_cast<int>(feed_.Byte()) : keys;
}

template <typename Response>
absl::StatusOr<Response> HostileMaster::Deliver(Response response) {
  const absl::StatusOr<std::string> bytes = Send(response);
  if (!bytes.ok()) return bytes.status();
  if (!response.ParseFromString(*bytes)) return absl::InternalError("no message");
  return response;
}

template <typename Answer, typename Response>
absl::StatusOr<Answer> HostileMaster::DeliverPlaces(Response response) {
  const absl::StatusOr<std::string> bytes = Send(response);
  if (!bytes.ok()) return bytes.status();
  Answer answer;
  if (!ReadAnswer(*bytes, answer)) return absl::InternalError("no message");
  return answer;
}

template <typename Response>
absl::StatusOr<std::string> HostileMaster::Send(Response& response) {
  response.mutable_header()->mutable_version()->set_major(kWireMajor);
  if (feed_.OneIn(16)) return StatusFromProto(Failure());
  if (feed_.OneIn(16)) return std::string(feed_.Bytes());
  return response.SerializeAsString();
}

v1::Status HostileMaster::Outcome() { return feed_.OneIn(4) ? Failure() : v1::Status(); }

v1::Status HostileMaster::Failure() {
  constexpr absl::StatusCode kCodes[] = {absl::StatusCode::kNotFound,
                                         absl::StatusCode::kUnavailable,
                                         absl::StatusCode::kAborted,
                                         absl::StatusCode::kAlreadyExists,
                                         absl::StatusCode::kFailedPrecondition,
                                         absl::StatusCode::kResourceExhausted};
  v1::Status status;
  status.set_code(static_cast<int32_t>(feed_.OneOf(kCodes)));
  if (feed_.OneIn(4)) status.set_code(static_cast<int32_t>(feed_.Number32() | 1));
  if (feed_.OneIn(4)) status.set_message(std::string(feed_.Bytes()));
  if (!feed_.OneIn(2)) return status;
  v1::ErrorDetail* detail = status.mutable_detail();
  detail->set_reason(static_cast<v1::ErrorReason>(feed_.Number32()));
  detail->set_retry_after_ms(feed_.Number());
  if (feed_.OneIn(4)) detail->set_key(std::string(feed_.Bytes()));
  return status;
}

void HostileMaster::FillNodes(google::protobuf::RepeatedPtrField<v1::NodeAddress>* nodes) {
  for (const auto& node : nodes_.all()) {
    const transport::PeerAddress address = node->address();
    v1::NodeAddress* out = nodes->Add();
    out->set_node_id(static_cast<uint32_t>(nodes->size()));
    out->set_name(address.name);
    out->set_incarnation(address.incarnation.value);
    out->set_host_id(address.host_id);
    out->set_tcp_address(address.tcp_address);
    out->set_shm_path(address.shm_path);
  }
  if (!feed_.OneIn(8)) return;
  v1::NodeAddress& wrong = *nodes->Mutable(static_cast<int>(feed_.Below(2)));
  switch (feed_.Below(4)) {
    case 0: wrong.set_node_id(feed_.Number32()); break;
    case 1: wrong.set_incarnation(feed_.Number()); break;
    case 2: wrong.set_name(std::string(feed_.Bytes())); break;
    default: wrong.clear_tcp_address();
  }
}

// New bytes for so much, in one part or two.
v1::Replica HostileMaster::Replica(uint64_t size_bytes) {
  v1::Replica replica;
  const uint64_t first = feed_.OneIn(3) ? size_bytes / 2 : size_bytes;
  for (const uint64_t payload : {first, size_bytes - first}) {
    if (payload == 0 && !replica.parts().empty()) continue;
    const size_t node = feed_.Below(nodes_.all().size());
    v1::Part* part = replica.add_parts();
    part->set_node_id(static_cast<uint32_t>(node + 1));
    const uint64_t bytes = kPartHeaderBytes + payload;
    part->mutable_extent()->set_offset(nodes_.all()[node]->Allocate(bytes));
    part->mutable_extent()->set_length(bytes);
  }
  return replica;
}

void HostileMaster::Distort(google::protobuf::RepeatedPtrField<v1::Replica>& replicas) {
  if (replicas.empty()) return;
  v1::Replica& replica = *replicas.Mutable(0);
  if (replica.parts().empty()) return;
  v1::Part& part = *replica.mutable_parts(static_cast<int>(feed_.Below(2)) % replica.parts_size());
  switch (feed_.Below(8)) {
    case 0: part.mutable_extent()->set_length(feed_.Number()); break;
    case 1: part.mutable_extent()->set_offset(feed_.Number()); break;
    case 2: part.set_node_id(feed_.Number32()); break;
    case 3: *replica.add_parts() = part; break;
    case 4: replica.mutable_parts()->SwapElements(0, replica.parts_size() - 1); break;
    case 5: replica.clear_parts(); break;
    case 6: replicas.Clear(); break;
    default:
      for (int more = feed_.Byte(); more > 0; --more) *replicas.Add() = v1::Replica(replica);
  }
}

v1::Grant HostileMaster::Grant(uint64_t size_bytes) {
  v1::Grant grant;
  grant.set_generation(Generation::Of(Term{kTerm}, ++grants_).value);
  grant.set_deadline_ms(feed_.Number());
  if (feed_.OneIn(8)) grant.set_generation(feed_.Number());
  const size_t replicas = 1 + feed_.Below(2);
  for (size_t i = 0; i < replicas; ++i) *grant.add_replicas() = Replica(size_bytes);
  v1::Location location;
  location.set_generation(grant.generation());
  location.set_size_bytes(size_bytes);
  *location.mutable_replicas() = grant.replicas();
  Know(location);
  if (feed_.OneIn(4)) Distort(*grant.mutable_replicas());
  return grant;
}

v1::Location HostileMaster::Location() {
  v1::Location location = known_[feed_.Below(known_.size())];
  location.set_handle(feed_.Byte());
  if (!feed_.OneIn(2)) return location;
  switch (feed_.Below(5)) {
    case 0: location.set_generation(feed_.Number()); break;
    case 1: location.set_size_bytes(feed_.Number()); break;
    case 2: location.set_lease_ms(feed_.Number()); break;
    case 3: {  // an extent that fits whatever size is said
      const uint64_t size = feed_.Number();
      location.set_size_bytes(size);
      for (v1::Replica& replica : *location.mutable_replicas()) {
        if (replica.parts_size() != 1) continue;
        replica.mutable_parts(0)->mutable_extent()->set_length(size + kPartHeaderBytes);
      }
      break;
    }
    default: Distort(*location.mutable_replicas());
  }
  return location;
}

absl::StatusOr<v1::OpenNamespaceResponse> HostileMaster::OpenNamespace(
    const v1::OpenNamespaceRequest&, const CallContext&) {
  return Deliver(v1::OpenNamespaceResponse());
}

absl::StatusOr<StartPutsAnswer> HostileMaster::StartPuts(const v1::StartPutsRequest& request,
                                                         const CallContext&) {
  v1::StartPutsResponse response;
  const int count = CountFor(request.puts_size());
  for (int i = 0; i < count; ++i) {
    v1::PutResult* result = response.add_results();
    *result->mutable_status() = Outcome();
    if (feed_.OneIn(8)) result->set_existing_generation(feed_.Number());
    const uint64_t size = i < request.puts_size() ? request.puts(i).size_bytes() : feed_.Number();
    if (!feed_.OneIn(8)) *result->mutable_grant() = Grant(size);
  }
  FillNodes(response.mutable_nodes());
  return DeliverPlaces<StartPutsAnswer>(std::move(response));
}

absl::StatusOr<CommitPutsAnswer> HostileMaster::CommitPuts(const v1::CommitPutsRequest& request,
                                                           const CallContext&) {
  v1::CommitPutsResponse response;
  const int count = CountFor(request.puts_size());
  for (int i = 0; i < count; ++i) *response.add_results() = Outcome();
  if (request.has_spare()) {
    const uint64_t spares = feed_.Below(4);
    for (uint64_t i = 0; i < spares; ++i) {
      *response.add_spares() = Grant(request.spare().size_bytes());
    }
    FillNodes(response.mutable_nodes());
  }
  if (feed_.OneIn(4)) response.add_bound()->set_handle(feed_.Number32());
  return DeliverPlaces<CommitPutsAnswer>(std::move(response));
}

absl::StatusOr<v1::AbortPutsResponse> HostileMaster::AbortPuts(const v1::AbortPutsRequest& request,
                                                               const CallContext&) {
  v1::AbortPutsResponse response;
  const int count = CountFor(request.puts_size());
  for (int i = 0; i < count; ++i) *response.add_results() = Outcome();
  return Deliver(std::move(response));
}

absl::StatusOr<LocateAnswer> HostileMaster::Locate(const v1::LocateRequest& request,
                                                   const CallContext&) {
  v1::LocateResponse response;
  const int count = CountFor(request.keys_size());
  for (int i = 0; i < count; ++i) {
    v1::LocateResult* result = response.add_results();
    *result->mutable_status() = Outcome();
    *result->mutable_location() = Location();
  }
  FillNodes(response.mutable_nodes());
  return DeliverPlaces<LocateAnswer>(std::move(response));
}

absl::StatusOr<MatchPrefixAnswer> HostileMaster::MatchPrefix(const v1::MatchPrefixRequest& request,
                                                             const CallContext&) {
  v1::MatchPrefixResponse response;
  const int count = CountFor(request.keys_size());
  for (int i = 0; i < count; ++i) *response.add_locations() = Location();
  *response.mutable_miss() = Outcome();
  FillNodes(response.mutable_nodes());
  return DeliverPlaces<MatchPrefixAnswer>(std::move(response));
}

absl::StatusOr<v1::ExistsResponse> HostileMaster::Exists(const v1::ExistsRequest& request,
                                                         const CallContext&) {
  v1::ExistsResponse response;
  const int count = CountFor(request.keys_size());
  for (int i = 0; i < count; ++i) *response.add_results() = Outcome();
  return Deliver(std::move(response));
}

absl::StatusOr<v1::ListObjectsResponse> HostileMaster::ListObjects(
    const v1::ListObjectsRequest& request, const CallContext&) {
  v1::ListObjectsResponse response;
  const int count = CountFor(static_cast<int>(feed_.Below(4)));
  for (int i = 0; i < count; ++i) {
    v1::ObjectEntry* entry = response.add_objects();
    entry->set_key(absl::StrCat(request.prefix(), feed_.Bytes()));
  }
  if (feed_.OneIn(2)) response.set_next_page_token(std::string(feed_.Bytes()));
  return Deliver(std::move(response));
}

absl::StatusOr<v1::RemoveResponse> HostileMaster::Remove(const v1::RemoveRequest& request,
                                                         const CallContext&) {
  v1::RemoveResponse response;
  const int count = CountFor(request.keys_size());
  for (int i = 0; i < count; ++i) *response.add_results() = Outcome();
  return Deliver(std::move(response));
}

}  // namespace moonpool::client
