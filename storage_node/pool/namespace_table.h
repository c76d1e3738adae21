// Names of namespaces, stored once however many parts bear them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace moonpool::storage_node {

// Counts its users: a name goes when the last part that bears it does, so a peer that invents
// names costs no more than its parts. Not thread-safe.
class NamespaceTable {
 public:
  using Id = uint32_t;

  // One use more of the name.
  Id Acquire(absl::string_view name);
  // One use less.
  void Release(Id id);
  // Valid until the name's last use is released.
  absl::string_view NameOf(Id id) const { return entries_[id].name; }
  size_t size() const { return ids_.size(); }

 private:
  struct Entry {
    std::string name;
    uint64_t uses = 0;
  };
  std::vector<Entry> entries_;
  std::vector<Id> unused_;
  absl::flat_hash_map<std::string, Id> ids_;
};

}  // namespace moonpool::storage_node
