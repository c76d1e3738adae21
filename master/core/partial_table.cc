#include "master/core/partial_table.h"

#include <algorithm>
#include <utility>

namespace moonpool::master {

StoredParts PartialObject::CompleteReplica(
    uint8_t replica, uint32_t part_count,
    absl::FunctionRef<bool(const PartialPart&)> counts) const {
  std::vector<const PartialPart*> by_index(part_count);
  uint32_t found = 0;
  for (const PartialPart& part : parts) {
    if (part.part.replica != replica || part.part_count != part_count || !counts(part)) continue;
    if (std::exchange(by_index[part.part_index], &part) == nullptr) ++found;
  }
  if (found < part_count) return {};
  StoredParts complete;
  uint64_t payload = 0;
  for (const PartialPart* const part : by_index) {
    payload += part->part.length - kPartHeaderBytes;
    complete.push_back(part->part);
  }
  return payload == size_bytes ? complete : StoredParts{};
}

const PartialObject* PartialTable::Find(const Id& id) const {
  const auto object = objects_.find(id);
  return object == objects_.end() ? nullptr : &object->second;
}

const PartialObject& PartialTable::Add(const Id& id, PartialObject object) {
  for (const PartialPart& part : object.parts) by_place_.emplace(PlaceOf(part), id);
  by_time_.emplace(object.expires, id);
  return objects_.emplace(id, std::move(object)).first->second;
}

PartialObject PartialTable::Take(const Id& id) {
  const auto found = objects_.find(id);
  PartialObject object = std::move(found->second);
  for (const PartialPart& part : object.parts) by_place_.erase(PlaceOf(part));
  by_time_.erase({object.expires, id});
  objects_.erase(found);
  return object;
}

void PartialTable::AddPart(const Id& id, const PartialPart& part) {
  objects_.at(id).parts.push_back(part);
  by_place_.emplace(PlaceOf(part), id);
}

bool PartialTable::Renew(const Id& id, const PartialPart& part) {
  for (PartialPart& known : objects_.at(id).parts) {
    const bool is_same = PlaceOf(known) == PlaceOf(part) && known.part.length == part.part.length &&
                         known.part.replica == part.part.replica &&
                         known.part_index == part.part_index && known.part_count == part.part_count;
    if (!is_same) continue;
    known.session = part.session;
    return true;
  }
  return false;
}

bool PartialTable::HasPartAt(const Id& id, NodeId node) const {
  const PartialObject* const object = Find(id);
  return object != nullptr && std::any_of(object->parts.begin(), object->parts.end(),
                                          [&](const PartialPart& p) { return p.node == node; });
}

std::optional<PartialTable::Id> PartialTable::At(NodeId node, uint32_t segment,
                                                 uint64_t offset) const {
  const auto id = by_place_.find(Place{node.value, segment, offset});
  if (id == by_place_.end()) return std::nullopt;
  return id->second;
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
