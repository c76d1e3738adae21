// The spare grants that are out: given to a client before it has a key for them.
//
// Each is a granted slot of the object table, of a namespace that nobody can name, so that all that
// befalls grants befalls it: its deadline, the loss of its nodes, the books. A commit that names a
// key, or a node that reports a part sealed under it, makes it the grant of that key (BindSpare).
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "common/types.h"
#include "master/core/object_table.h"
#include "master/core/options.h"

namespace moonpool::master {

// Ids of namespaces are smaller.
inline constexpr NamespaceId kSpareNamespace = kMaxNamespaces;

class SpareTable {
 public:
  struct Spare {
    SlotIndex slot = kNoSlot;
    uint64_t client_id = 0;
    uint64_t bytes = 0;  // of the pool
  };

  void Open(Generation generation, const Spare& spare);
  void Close(Generation generation);
  // nullptr when it is none.
  const Spare* Find(Generation generation) const;
  uint32_t CountOf(uint64_t client_id) const;
  uint64_t bytes() const { return bytes_; }
  size_t size() const { return spares_.size(); }

 private:
  absl::flat_hash_map<Generation, Spare> spares_;      // never iterated
  absl::flat_hash_map<uint64_t, uint32_t> by_client_;  // those that have any
  uint64_t bytes_ = 0;
};

}  // namespace moonpool::master
