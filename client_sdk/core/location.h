// Where an object is: what Locate, MatchPrefix and an own put tell, with the nodes resolved.
//
// Node ids mean something only within one response (they are given anew by each leader), so a
// location refers to its peers directly and stays right over changes of leader.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "client_sdk/core/peers.h"
#include "common/rpc/place_answers.h"
#include "common/types.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool::client {

struct PartPlace {
  std::shared_ptr<Peer> peer;
  Extent extent;
  bool operator==(const PartPlace&) const = default;
};

// One complete copy. Parts are in object order, and their payloads add up to the object.
struct ReplicaPlaces {
  absl::InlinedVector<PartPlace, 1> parts;
  bool operator==(const ReplicaPlaces&) const = default;
};
using Replicas = absl::InlinedVector<ReplicaPlaces, 1>;

// Immutable but for what readers have found out about it. Shared by the cache and the calls that
// use it.
class Location {
 public:
  Location(Generation generation, uint32_t handle, uint64_t size_bytes, Replicas replicas)
      : generation_(generation),
        handle_(handle),
        size_bytes_(size_bytes),
        replicas_(std::move(replicas)) {}

  Generation generation() const { return generation_; }
  uint32_t handle() const { return handle_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const Replicas& replicas() const { return replicas_; }
  std::string NodeNames() const;  // "n1, n2": for messages

  // Whether the checksum of a replica's bytes in the pool has been computed and was right. They
  // cannot change under their generation, so that views need it once. replica < kMaxReplicas.
  bool is_verified(size_t replica) const {
    return (verified_.load(std::memory_order_relaxed) >> replica & 1) != 0;
  }
  void SetVerified(size_t replica) const {
    verified_.fetch_or(uint32_t{1} << replica, std::memory_order_relaxed);
  }

 private:
  const Generation generation_;
  const uint32_t handle_;
  const uint64_t size_bytes_;
  const Replicas replicas_;
  mutable std::atomic<uint32_t> verified_{0};
};

using LocationPtr = std::shared_ptr<const Location>;

// The nodes that one response names.
class ResponseNodes {
 public:
  ResponseNodes(const google::protobuf::RepeatedPtrField<v1::NodeAddress>& nodes, Peers& peers);

  // INTERNAL when the message contradicts itself (an unnamed node, sizes that do not add up).
  absl::StatusOr<ReplicaPlaces> Resolve(const ToldReplica& replica, uint64_t size_bytes) const;
  // Replicas that contradict themselves are left out; INTERNAL when none remains.
  absl::StatusOr<LocationPtr> Resolve(const ToldLocation& location) const;

 private:
  absl::flat_hash_map<uint32_t, std::shared_ptr<Peer>> by_id_;
};

}  // namespace moonpool::client
