#include "master/core/spare_table.h"

namespace moonpool::master {

void SpareTable::Open(Generation generation, const Spare& spare) {
  spares_.emplace(generation, spare);
  ++by_client_[spare.client_id];
  bytes_ += spare.bytes;
}

void SpareTable::Close(Generation generation) {
  const auto spare = spares_.find(generation);
  const auto client = by_client_.find(spare->second.client_id);
  if (--client->second == 0) by_client_.erase(client);
  bytes_ -= spare->second.bytes;
  spares_.erase(spare);
}

const SpareTable::Spare* SpareTable::Find(Generation generation) const {
  const auto spare = spares_.find(generation);
  return spare == spares_.end() ? nullptr : &spare->second;
}

uint32_t SpareTable::CountOf(uint64_t client_id) const {
  const auto client = by_client_.find(client_id);
  return client == by_client_.end() ? 0 : client->second;
}

}  // namespace moonpool::master
