#include "transport/ops.h"

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/names.h"
#include "common/status_macros.h"

namespace moonpool::transport {
namespace {

absl::Status Bad(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what);
}

template <typename Spans>
absl::Status ValidateBuffers(const Spans& spans, const Extent& extent) {
  uint64_t bytes = 0;
  for (const auto& span : spans) bytes += span.size();
  if (bytes == extent.payload_bytes()) return absl::OkStatus();
  return Bad(
      absl::StrCat("buffers of ", bytes, " bytes for a payload of ", extent.payload_bytes()));
}

}  // namespace

PartHeader HeaderOf(const SealRecord& record) {
  return PartHeader{.generation = record.generation,
                    .payload_bytes = record.extent.payload_bytes(),
                    .payload_checksum = record.payload_checksum,
                    .object_bytes = record.object_bytes,
                    .key_fingerprint = KeyFingerprint(record.name_space, record.key),
                    .part_index = record.part_index,
                    .part_count = record.part_count};
}

absl::Status Validate(const Extent& extent) {
  if (extent.length < kPartHeaderBytes || extent.length > kMaxExtentBytes ||
      extent.offset > kMaxExtentOffset) {
    return Bad(absl::StrCat("impossible extent: ", extent.length, " bytes at ", extent.offset));
  }
  return absl::OkStatus();
}

absl::Status Validate(const SealRecord& record) {
  if (record.generation == Generation{}) return Bad("generation 0");
  RETURN_IF_ERROR(Validate(record.extent));
  if (record.key.empty()) return Bad("empty key");
  if (record.key.size() > kMaxKeyBytes || record.parent.size() > kMaxKeyBytes ||
      record.name_space.size() > kMaxNamespaceBytes) {
    return Bad("key, parent or namespace is too long");
  }
  // It is reported to the master as it stands here: what a proto `string` cannot hold would make
  // every report of this node unreadable.
  if (!SplitPartNamespace(record.name_space).has_value()) {
    return Bad("a part's namespace is a name, or a name and a fingerprint");
  }
  if (record.part_index >= record.part_count || record.part_count > kMaxPartsPerReplica) {
    return Bad(absl::StrCat("part ", record.part_index, " of ", record.part_count));
  }
  if (record.replica_index >= kMaxReplicas || record.replicas > kMaxReplicas) {
    return Bad(absl::StrCat("replica ", record.replica_index, " of ", record.replicas));
  }
  return absl::OkStatus();
}

absl::Status Validate(const ReadOp& op) {
  if (op.generation == Generation{}) return Bad("generation 0");
  RETURN_IF_ERROR(Validate(op.extent));
  return ValidateBuffers(op.into, op.extent);
}

absl::Status Validate(const WriteOp& op) {
  RETURN_IF_ERROR(Validate(op.record));
  return ValidateBuffers(op.from, op.record.extent);
}

}  // namespace moonpool::transport
