#include "master/core/partial_table.h"

#include <algorithm>

namespace moonpool::master {

StoredParts PartialObject::CompleteReplica(uint8_t replica) const {
  std::vector<const PartialPart*> found;
  for (const PartialPart& part : parts) {
    if (part.part.replica == replica) found.push_back(&part);
  }
  if (found.empty() || found.size() != found.front()->part_count) return {};
  std::sort(found.begin(), found.end(), [](const PartialPart* a, const PartialPart* b) {
    return a->part_index < b->part_index;
  });
  StoredParts complete;
  uint64_t payload = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]->part_index != i) return {};
    payload += found[i]->part.length - kPartHeaderBytes;
    complete.push_back(found[i]->part);
  }
  return payload == size_bytes ? complete : StoredParts{};
}

PartialObject* PartialTable::Find(const Id& id) {
  const auto object = objects_.find(id);
  return object == objects_.end() ? nullptr : &object->second;
}

PartialObject& PartialTable::Add(const Id& id, PartialObject object) {
  by_time_.emplace(object.expires, id);
  return objects_.emplace(id, std::move(object)).first->second;
}

PartialObject PartialTable::Take(const Id& id) {
  const auto found = objects_.find(id);
  PartialObject object = std::move(found->second);
  by_time_.erase({object.expires, id});
  objects_.erase(found);
  return object;
}

std::optional<PartialTable::Id> PartialTable::FirstOf(uint64_t key_hash) const {
  const auto object = objects_.lower_bound(Id{key_hash, Generation{0}});
  if (object == objects_.end() || object->first.key_hash != key_hash) return std::nullopt;
  return object->first;
}

std::optional<PartialTable::Id> PartialTable::Due(absl::Time now) const {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  return by_time_.begin()->second;
}

}  // namespace moonpool::master
