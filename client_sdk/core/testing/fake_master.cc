#include "client_sdk/core/testing/fake_master.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"

namespace moonpool::client {

template <typename Request, typename Response, typename Serve>
absl::StatusOr<Response> FakeMaster::Run(absl::string_view method, const Request& request,
                                         const CallContext& context, Response response,
                                         Serve serve) {
  if (on_call) on_call(method);
  if (absl::Status ended = context.Check(clock_); !ended.ok()) return ended;
  response.mutable_header()->mutable_version()->set_major(version_major);
  absl::MutexLock lock(&mutex_);
  ++calls_[std::string(method)];
  touched_.insert(touched_.end(), request.header().touched().begin(),
                  request.header().touched().end());
  for (Fault& fault : faults_) {
    if (fault.method != method || fault.fault.times == 0) continue;
    --fault.fault.times;
    if (fault.fault.is_applied) serve(&response);
    if (absl::IsDeadlineExceeded(fault.status)) clock_.Advance(context.Remaining(clock_));
    return fault.status;
  }
  serve(&response);
  return response;
}

void FakeMaster::Fail(absl::string_view method, absl::Status status, FakeMasterFault fault) {
  absl::MutexLock lock(&mutex_);
  faults_.push_back({std::string(method), std::move(status), fault});
}

absl::StatusOr<v1::OpenNamespaceResponse> FakeMaster::OpenNamespace(
    const v1::OpenNamespaceRequest& request, const CallContext& context) {
  return Run("OpenNamespace", request, context, v1::OpenNamespaceResponse(), [&](auto* response) {
    response->set_fingerprint(fingerprint.empty() ? request.fingerprint() : fingerprint);
  });
}

absl::StatusOr<v1::StartPutsResponse> FakeMaster::Reply(const v1::StartPutsRequest& request,
                                                        const CallContext& context) {
  return Run("StartPuts", request, context, v1::StartPutsResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    request_ids_.push_back(request.request_id());
    start_hosts.push_back(request.header().host_id());
    for (const v1::PutKey& put : request.puts()) {
      StartPut(put, request.request_id(), std::max(1u, request.replicas()),
               response->add_results());
    }
    FillNodes(response->mutable_nodes());
  });
}

void FakeMaster::StartPut(const v1::PutKey& put, uint64_t request_id, uint32_t replicas,
                          v1::PutResult* result) {
  const auto live = live_.find(put.key());
  if (live != live_.end()) {
    StatusToProto(MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists, "there"),
                  result->mutable_status());
    result->set_existing_generation(live->second.generation);
    return;
  }
  if (starts_without_nodes > 0) {
    --starts_without_nodes;
    StatusToProto(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNoNodes, "none is up",
                            {.retry_after = nodes_come_within}),
                  result->mutable_status());
    return;
  }
  const auto granted = granted_.find(put.key());
  const auto repeated = by_request_.find({request_id, put.key()});
  if (granted != granted_.end() &&
      (repeated == by_request_.end() || repeated->second != granted->second.generation)) {
    StatusToProto(
        MakeError(absl::StatusCode::kAborted, ErrorReason::kBeingWritten, "being written"),
        result->mutable_status());
    return;
  }
  if (granted == granted_.end()) {
    granted_[put.key()] = Place(put, replicas);
    by_request_[{request_id, put.key()}] = granted_[put.key()].generation;
  }
  const Object& object = granted_[put.key()];
  FillGrant(object, result->mutable_grant());
  result->mutable_grant()->set_deadline_ms(30000);
}

void FakeMaster::FillGrant(const Object& object, v1::Grant* grant) {
  grant->set_generation(object.generation);
  grant->set_handle(object.handle);
  for (const v1::Replica& replica : object.replicas) *grant->add_replicas() = replica;
}

FakeMaster::Object FakeMaster::Place(const v1::PutKey& put, uint32_t replicas) {
  std::vector<FakeNode*> candidates;
  for (const std::string& name : placement) candidates.push_back(nodes_.Find(name));
  if (placement.empty()) {
    for (const auto& node : nodes_.all()) candidates.push_back(node.get());
  }
  Object object = {.key = put.key(),
                   .size_bytes = put.size_bytes(),
                   .generation = Generation::Of(term_, ++counter_).value,
                   .handle = counter_ + 100,
                   .replicas = {}};
  const size_t rotation = placement.empty() ? Checksum(put.key()) % candidates.size() : 0;
  for (uint32_t i = 0; i < std::min<size_t>(replicas, candidates.size()); ++i) {
    v1::Replica& replica = object.replicas.emplace_back();
    uint64_t placed = 0;
    do {
      const uint64_t left = put.size_bytes() - placed;
      const uint64_t bytes = stripe_bytes == 0 ? left : std::min(left, stripe_bytes);
      const size_t index =
          (rotation + i + static_cast<size_t>(replica.parts_size())) % candidates.size();
      FakeNode* node = candidates[index];
      v1::Part* part = replica.add_parts();
      const auto& all = nodes_.all();
      const auto place = std::find_if(all.begin(), all.end(),
                                      [&](const auto& each) { return each.get() == node; });
      part->set_node_id(static_cast<uint32_t>(place - all.begin()) + 1);
      part->mutable_extent()->set_offset(node->Allocate(bytes + kPartHeaderBytes));
      part->mutable_extent()->set_length(bytes + kPartHeaderBytes);
      placed += bytes;
    } while (placed < put.size_bytes());
  }
  return object;
}

absl::StatusOr<v1::CommitPutsResponse> FakeMaster::Reply(const v1::CommitPutsRequest& request,
                                                         const CallContext& context) {
  return Run("CommitPuts", request, context, v1::CommitPutsResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    for (const v1::CommitPut& put : request.puts()) {
      const absl::Status status =
          put.key().empty() ? CommitOne(put) : CommitSpare(put, response->add_bound());
      StatusToProto(status, response->add_results());
    }
    for (uint32_t i = 0; i < std::min(request.spare().count(), spares_max); ++i) {
      v1::PutKey unknown;
      unknown.set_size_bytes(request.spare().size_bytes());
      Object spare = Place(unknown, request.spare().replicas());
      FillGrant(spare, response->add_spares());
      response->mutable_spares(static_cast<int>(i))->set_deadline_ms(5000);
      spares_[spare.generation] = std::move(spare);
    }
    if (!response->spares().empty()) FillNodes(response->mutable_nodes());
  });
}

bool FakeMaster::IsNamedBy(const v1::CommitPut& put, const Object& object) {
  return object.generation == put.generation() && object.handle == put.handle();
}

absl::Status FakeMaster::CommitOne(const v1::CommitPut& put) {
  for (const auto& [key, object] : live_) {
    if (IsNamedBy(put, object)) return absl::OkStatus();
  }
  for (auto& [key, object] : granted_) {
    if (!IsNamedBy(put, object)) continue;
    Object committed = object;
    committed.replicas.clear();
    for (size_t i = 0; i < object.replicas.size(); ++i) {
      if (std::find(put.failed_replicas().begin(), put.failed_replicas().end(), i) ==
          put.failed_replicas().end()) {
        committed.replicas.push_back(object.replicas[i]);
      }
    }
    live_[key] = std::move(committed);
    granted_.erase(key);
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kAborted, ErrorReason::kGrantAborted, "no such grant");
}

absl::Status FakeMaster::CommitSpare(const v1::CommitPut& put, v1::BoundPut* bound) {
  const auto spare = spares_.find(put.generation());
  const auto live = live_.find(put.key());
  if (live != live_.end() && live->second.generation == put.generation()) {
    bound->set_handle(live->second.handle);
    return absl::OkStatus();
  }
  if (spare == spares_.end()) {
    return MakeError(absl::StatusCode::kAborted, ErrorReason::kGrantAborted, "no such spare");
  }
  Object object = std::move(spare->second);
  spares_.erase(spare);
  if (live != live_.end() || granted_.count(put.key()) > 0) {
    for (const auto& node : nodes_.all()) node->Free(Generation{object.generation});
    if (live == live_.end()) {
      return MakeError(absl::StatusCode::kAborted, ErrorReason::kBeingWritten, "being written");
    }
    bound->set_existing_generation(live->second.generation);
    return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists, "there");
  }
  object.key = put.key();
  object.handle += 1000;  // where it stands now
  bound->set_handle(object.handle);
  live_[put.key()] = std::move(object);
  return absl::OkStatus();
}

absl::StatusOr<v1::AbortPutsResponse> FakeMaster::AbortPuts(const v1::AbortPutsRequest& request,
                                                            const CallContext& context) {
  return Run("AbortPuts", request, context, v1::AbortPutsResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    for (const v1::AbortPut& put : request.puts()) {
      aborts_.push_back(put);
      spares_.erase(put.generation());
      std::erase_if(granted_,
                    [&](const auto& grant) { return grant.second.generation == put.generation(); });
      response->add_results();
    }
  });
}

absl::Status FakeMaster::MissOf(const std::string& key) const {
  if (live_.count(key) > 0) return absl::OkStatus();
  const auto why = gone_.find(key);
  return MakeError(absl::StatusCode::kNotFound,
                   why == gone_.end() ? ErrorReason::kNeverStored : why->second, "not here");
}

void FakeMaster::FillLocation(const Object& object, uint64_t lease_ms,
                              v1::Location* location) const {
  location->set_generation(object.generation);
  location->set_handle(object.handle);
  location->set_size_bytes(object.size_bytes);
  location->set_lease_ms(lease_ms);
  for (const v1::Replica& replica : object.replicas) *location->add_replicas() = replica;
}

void FakeMaster::FillNodes(google::protobuf::RepeatedPtrField<v1::NodeAddress>* nodes) const {
  uint32_t id = 0;
  for (const auto& node : nodes_.all()) {
    const transport::PeerAddress address = node->address();
    v1::NodeAddress* added = nodes->Add();
    added->set_node_id(++id);
    added->set_name(address.name);
    added->set_incarnation(address.incarnation.value);
    added->set_host_id(address.host_id);
    added->set_tcp_address(address.tcp_address);
    added->set_shm_path(address.shm_path);
  }
}

absl::StatusOr<v1::LocateResponse> FakeMaster::Reply(const v1::LocateRequest& request,
                                                     const CallContext& context) {
  return Run("Locate", request, context, v1::LocateResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    for (const std::string& key : request.keys()) {
      v1::LocateResult* result = response->add_results();
      StatusToProto(MissOf(key), result->mutable_status());
      if (live_.count(key) > 0) FillLocation(live_[key], 0, result->mutable_location());
    }
    FillNodes(response->mutable_nodes());
  });
}

absl::StatusOr<v1::MatchPrefixResponse> FakeMaster::Reply(const v1::MatchPrefixRequest& request,
                                                          const CallContext& context) {
  return Run("MatchPrefix", request, context, v1::MatchPrefixResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    for (const std::string& key : request.keys()) {
      if (const absl::Status miss = MissOf(key); !miss.ok()) {
        StatusToProto(miss, response->mutable_miss());
        break;
      }
      FillLocation(live_[key], request.lease_ms(), response->add_locations());
    }
    FillNodes(response->mutable_nodes());
  });
}

absl::StatusOr<v1::ExistsResponse> FakeMaster::Exists(const v1::ExistsRequest& request,
                                                      const CallContext& context) {
  return Run("Exists", request, context, v1::ExistsResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    for (const std::string& key : request.keys()) {
      StatusToProto(MissOf(key), response->add_results());
    }
  });
}

absl::StatusOr<v1::RemoveResponse> FakeMaster::Remove(const v1::RemoveRequest& request,
                                                      const CallContext& context) {
  return Run("Remove", request, context, v1::RemoveResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    for (const std::string& key : request.keys()) {
      StatusToProto(MissOf(key), response->add_results());
      Drop(key, ErrorReason::kRemoved);
    }
  });
}

// Pages of a slot each, empty where another namespace or prefix would have it: like the real one's.
absl::StatusOr<v1::ListObjectsResponse> FakeMaster::ListObjects(
    const v1::ListObjectsRequest& request, const CallContext& context) {
  return Run("ListObjects", request, context, v1::ListObjectsResponse(), [&](auto* response) {
    mutex_.AssertHeld();
    list_limits.push_back(request.limit());
    const auto slot = live_.upper_bound(request.page_token());
    if (slot == live_.end()) return;
    if (slot->first.starts_with(request.prefix())) {
      v1::ObjectEntry* entry = response->add_objects();
      entry->set_key(slot->first);
      entry->set_size_bytes(slot->second.size_bytes);
    }
    if (std::next(slot) != live_.end()) response->set_next_page_token(slot->first);
  });
}

void FakeMaster::Drop(const std::string& key, ErrorReason why) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  for (const auto& node : nodes_.all()) node->Free(Generation{found->second.generation});
  live_.erase(found);
  gone_[key] = why;
}

void FakeMaster::Evict(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  Drop(key, ErrorReason::kEvicted);
}

void FakeMaster::CommitBySeal(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = granted_.find(key);
  if (found == granted_.end()) return;
  live_[key] = found->second;
  granted_.erase(found);
}

void FakeMaster::ChangeLeader() {
  absl::MutexLock lock(&mutex_);
  const auto is_sealed = [this](const Object& object) {
    const Generation generation{object.generation};
    return std::all_of(object.replicas.begin(), object.replicas.end(), [&](const auto& replica) {
      return std::all_of(replica.parts().begin(), replica.parts().end(), [&](const auto& part) {
        return nodes_.all()[part.node_id() - 1]->Holds(generation);
      });
    });
  };
  for (auto& [key, object] : granted_) {
    if (is_sealed(object)) live_[key] = std::move(object);
  }
  granted_.clear();
  spares_.clear();
  by_request_.clear();
  ++term_.value;
  for (auto& [key, object] : live_) object.handle = ++counter_ + 100;
}

Generation FakeMaster::GenerationOf(const std::string& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = live_.find(key);
  return found == live_.end() ? Generation{} : Generation{found->second.generation};
}

std::vector<std::string> FakeMaster::NodesOf(const std::string& key) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  const auto found = live_.find(key);
  if (found == live_.end()) return names;
  for (const v1::Replica& replica : found->second.replicas) {
    for (const v1::Part& part : replica.parts()) {
      names.push_back(nodes_.all()[part.node_id() - 1]->address().name);
    }
  }
  return names;
}

int FakeMaster::calls(absl::string_view method) const {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(std::string(method));
  return found == calls_.end() ? 0 : found->second;
}

int FakeMaster::calls() const {
  absl::MutexLock lock(&mutex_);
  int total = 0;
  for (const auto& [method, count] : calls_) total += count;
  return total;
}

std::vector<v1::Touch> FakeMaster::touched() const {
  absl::MutexLock lock(&mutex_);
  return touched_;
}
std::vector<uint64_t> FakeMaster::request_ids() const {
  absl::MutexLock lock(&mutex_);
  return request_ids_;
}
std::vector<v1::AbortPut> FakeMaster::aborts() const {
  absl::MutexLock lock(&mutex_);
  return aborts_;
}
size_t FakeMaster::spares() const {
  absl::MutexLock lock(&mutex_);
  return spares_.size();
}
size_t FakeMaster::open_grants() const {
  absl::MutexLock lock(&mutex_);
  return granted_.size();
}

}  // namespace moonpool::client
