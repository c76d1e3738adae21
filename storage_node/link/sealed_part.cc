#include "storage_node/link/sealed_part.h"

namespace moonpool::storage_node {

void SealedPartToProto(const transport::SealRecord& record, v1::SealedPart* proto) {
  proto->set_generation(record.generation.value);
  proto->set_namespace_(record.name_space);
  proto->set_key(record.key);
  proto->set_parent(record.parent);
  v1::Extent* const extent = proto->mutable_extent();
  extent->set_segment(record.extent.segment.value);
  extent->set_offset(record.extent.offset);
  extent->set_length(record.extent.length);
  proto->set_object_bytes(record.object_bytes);
  proto->set_part_index(record.part_index);
  proto->set_part_count(record.part_count);
  proto->set_replica_index(record.replica_index);
}

}  // namespace moonpool::storage_node
