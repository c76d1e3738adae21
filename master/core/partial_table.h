// Striped objects that nodes have reported in part: what is sealed, and what is still missing.
// Their bytes are reserved meanwhile. Bounded, and each waits for a bounded time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/node_commands.h"
#include "master/core/object_table.h"

namespace moonpool::master {

struct PartialPart {
  NodeId node = {};
  StoredPart part = {};  // with the replica number that the node reported; it may be there twice
  uint32_t part_index = 0;
  uint32_t part_count = 0;  // of this replica: each may be cut in its own way
  SessionId session = {};   // in which its node has named it last
};

struct PartialObject {
  NamespaceId name_space = 0;
  std::string key = {};
  std::string parent = {};
  uint64_t size_bytes = 0;
  absl::Time expires = {};
  std::vector<PartialPart> parts = {};

  // One part of each index, in object order, of those with this number that are cut into as many
  // parts and of which counts(part) is true; empty when some are missing.
  StoredParts CompleteReplica(uint8_t replica, uint32_t part_count,
                              absl::FunctionRef<bool(const PartialPart&)> counts) const;
};

class PartialTable {
 public:
  struct Id {
    uint64_t key_hash = 0;
    Generation generation;
    auto operator<=>(const Id&) const = default;
  };

  // nullptr when unknown.
  const PartialObject* Find(const Id& id) const;
  const PartialObject& Add(const Id& id, PartialObject object);
  PartialObject Take(const Id& id);
  // Nothing else stands where the part does.
  void AddPart(const Id& id, const PartialPart& part);
  // Its node has named the part again, in this session. False: it does not wait here.
  bool Renew(const Id& id, const PartialPart& part);
  // Those of which gone(part) is true; how many.
  template <typename Gone>
  size_t EraseParts(const Id& id, Gone gone);
  // A part of it waits there for others.
  bool HasPartAt(const Id& id, NodeId node) const;
  // What waits with a part there.
  std::optional<Id> At(NodeId node, uint32_t segment, uint64_t offset) const;
  // The oldest generation under this hash.
  std::optional<Id> FirstOf(uint64_t key_hash) const;
  std::optional<Id> Due(absl::Time now) const;

  size_t size() const { return objects_.size(); }
  const absl::btree_map<Id, PartialObject>& objects() const { return objects_; }

 private:
  using Place = std::tuple<uint32_t, uint32_t, uint64_t>;  // node, segment, offset
  static Place PlaceOf(const PartialPart& part) {
    return {part.node.value, part.part.segment, part.part.offset};
  }

  absl::btree_map<Id, PartialObject> objects_ = {};
  absl::btree_set<std::pair<absl::Time, Id>> by_time_ = {};
  absl::flat_hash_map<Place, Id> by_place_ = {};  // never iterated
};

template <typename Gone>
size_t PartialTable::EraseParts(const Id& id, Gone gone) {
  return std::erase_if(objects_.at(id).parts, [&](const PartialPart& part) {
    if (!gone(part)) return false;
    by_place_.erase(PlaceOf(part));
    return true;
  });
}

}  // namespace moonpool::master
