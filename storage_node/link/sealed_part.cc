#include "storage_node/link/sealed_part.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/rpc/extent_proto.h"
#include "common/status_macros.h"

namespace moonpool::storage_node {
namespace {

// What does not fit becomes the largest, which no record may have.
template <typename To>
To Narrow(uint32_t number) {
  return static_cast<To>(std::min<uint32_t>(number, std::numeric_limits<To>::max()));
}

}  // namespace

void SealedPartToProto(const transport::SealRecord& record, v1::SealedPart* proto) {
  proto->set_generation(record.generation.value);
  proto->set_namespace_(record.name_space);
  proto->set_key(record.key);
  proto->set_parent(record.parent);
  ExtentToProto(record.extent, proto->mutable_extent());
  proto->set_object_bytes(record.object_bytes);
  proto->set_part_index(record.part_index);
  proto->set_part_count(record.part_count);
  proto->set_replica_index(record.replica_index);
  proto->set_replicas(record.replicas);
}

absl::StatusOr<transport::SealRecord> SealRecordFromProto(const v1::SealedPart& proto) {
  const transport::SealRecord record = {.generation = Generation{proto.generation()},
                                        .name_space = proto.namespace_(),
                                        .key = proto.key(),
                                        .parent = proto.parent(),
                                        .extent = ExtentFromProto(proto.extent()),
                                        .object_bytes = proto.object_bytes(),
                                        .part_index = Narrow<uint16_t>(proto.part_index()),
                                        .part_count = Narrow<uint16_t>(proto.part_count()),
                                        .replica_index = Narrow<uint8_t>(proto.replica_index()),
                                        .replicas = Narrow<uint8_t>(proto.replicas())};
  RETURN_IF_ERROR(transport::Validate(record));
  return record;
}

}  // namespace moonpool::storage_node
