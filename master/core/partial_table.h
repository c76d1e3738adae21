// Striped objects that nodes have reported in part: what is sealed, and what is still missing.
// Their bytes are reserved meanwhile. Bounded, and each waits for a bounded time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/object_table.h"

namespace moonpool::master {

struct PartialPart {
  NodeId node = {};
  StoredPart part = {};  // with the replica number that the node reported
  uint32_t part_index = 0;
  uint32_t part_count = 0;  // of this replica: each may be cut in its own way
};

struct PartialObject {
  NamespaceId name_space = 0;
  std::string key = {};
  std::string parent = {};
  uint64_t size_bytes = 0;
  absl::Time expires = {};
  std::vector<PartialPart> parts = {};

  // The parts of this replica in object order when all are there; else empty.
  StoredParts CompleteReplica(uint8_t replica) const;
};

class PartialTable {
 public:
  struct Id {
    uint64_t key_hash = 0;
    Generation generation;
    auto operator<=>(const Id&) const = default;
  };

  // nullptr when unknown.
  PartialObject* Find(const Id& id);
  PartialObject& Add(const Id& id, PartialObject object);
  PartialObject Take(const Id& id);
  // The oldest generation under this hash.
  std::optional<Id> FirstOf(uint64_t key_hash) const;
  std::optional<Id> Due(absl::Time now) const;

  size_t size() const { return objects_.size(); }
  const absl::btree_map<Id, PartialObject>& objects() const { return objects_; }

 private:
  absl::btree_map<Id, PartialObject> objects_ = {};
  absl::btree_set<std::pair<absl::Time, Id>> by_time_ = {};
};

}  // namespace moonpool::master
