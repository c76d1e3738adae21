#include "client_sdk/core/put_attempt.h"

#include <algorithm>
#include <utility>

#include "client_sdk/core/pieces.h"

namespace moonpool::client {

void PutAttempt::Begin(ToldGrant granted) {
  stage = PutStage::kGranted;
  is_spare = false;
  grant = std::move(granted);
  past.push_back(grant.generation);
  replicas.clear();
  failed_replicas.clear();
  pinned.clear();
  failure = absl::OkStatus();
}

void PutAttempt::Begin(SpareGrant spare) {
  Begin(std::move(spare.grant));
  is_spare = true;
  replicas = std::move(spare.replicas);
}

void PutAttempt::PrepareWrites(const std::string& part_namespace, uint32_t wanted) {
  const auto said =
      static_cast<uint8_t>(std::min<size_t>(wanted, kMaxReplicas));  // a master may lie
  ops.clear();
  ops.resize(replicas.size());
  for (size_t replica = 0; replica < replicas.size(); ++replica) {
    const auto& parts = replicas[replica].parts;
    transport::SpanCursor<const std::byte> from(value->value);
    ops[replica].resize(parts.size());
    for (size_t part = 0; part < parts.size(); ++part) {
      transport::WriteOp& op = ops[replica][part];
      op.from = TakePieces(from, parts[part].extent.payload_bytes());
      op.record = {.generation = grant.generation,
                   .name_space = part_namespace,
                   .key = value->key,
                   .parent = value->parent,
                   .extent = parts[part].extent,
                   .object_bytes = size_bytes,
                   .part_index = static_cast<uint16_t>(part),
                   .part_count = static_cast<uint16_t>(parts.size()),
                   .replica_index = static_cast<uint8_t>(replica),
                   .replicas = said};
    }
  }
}

}  // namespace moonpool::client
