#include "client_sdk/core/location.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace moonpool::client {

std::string Location::NodeNames() const {
  std::set<std::string> names;
  for (const ReplicaPlaces& replica : replicas_) {
    for (const PartPlace& part : replica.parts) names.insert(part.peer->name());
  }
  return absl::StrJoin(names, ", ");
}

ResponseNodes::ResponseNodes(const google::protobuf::RepeatedPtrField<v1::NodeAddress>& nodes,
                             Peers& peers) {
  for (const v1::NodeAddress& node : nodes) {
    by_id_[node.node_id()] = peers.Intern({.name = node.name(),
                                           .incarnation = Incarnation{node.incarnation()},
                                           .host_id = node.host_id(),
                                           .tcp_address = node.tcp_address(),
                                           .shm_path = node.shm_path()});
  }
}

absl::StatusOr<ReplicaPlaces> ResponseNodes::Resolve(const ToldReplica& replica,
                                                     uint64_t size_bytes) const {
  if (replica.empty() || replica.size() > kMaxPartsPerReplica) {
    return absl::InternalError(
        absl::StrCat("the master sent a replica of ", replica.size(), " parts"));
  }
  ReplicaPlaces places;
  uint64_t total_bytes = 0;
  for (const ToldPart& part : replica) {
    const auto peer = by_id_.find(part.node_id);
    if (peer == by_id_.end()) {
      return absl::InternalError(absl::StrCat("the master sent no address of node ", part.node_id));
    }
    const Extent& extent = part.extent;
    if (extent.length < kPartHeaderBytes || extent.payload_bytes() > size_bytes - total_bytes) {
      return absl::InternalError(
          absl::StrCat("the master sent an impossible extent: ", ToString(extent)));
    }
    total_bytes += extent.payload_bytes();
    places.parts.push_back({peer->second, extent});
  }
  if (total_bytes != size_bytes) {
    return absl::InternalError(absl::StrCat("the master sent parts of ", total_bytes,
                                            " bytes for an object of ", size_bytes));
  }
  return places;
}

absl::StatusOr<LocationPtr> ResponseNodes::Resolve(const ToldLocation& location) const {
  Replicas replicas;
  absl::Status failure = absl::InternalError("the master sent a location without replicas");
  for (const ToldReplica& replica : location.replicas) {
    absl::StatusOr<ReplicaPlaces> places = Resolve(replica, location.size_bytes);
    if (!places.ok()) {
      failure = std::move(places).status();
    } else if (replicas.size() < kMaxReplicas) {
      replicas.push_back(*std::move(places));
    }
  }
  if (replicas.empty()) return failure;
  return std::make_shared<const Location>(location.generation, location.handle, location.size_bytes,
                                          std::move(replicas));
}

}  // namespace moonpool::client
