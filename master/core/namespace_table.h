// The namespaces: tenants' sets of keys, each with one layout fingerprint.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "master/core/durable.h"
#include "master/core/object_table.h"

namespace moonpool::master {

struct NamespaceRecord {
  std::string name;
  std::string fingerprint = {};  // empty: none (yet)
  bool is_saved = false;         // by this change; 0: by a master before
  ChangeNumber saved_by = 0;
  uint64_t objects = 0;
  uint64_t live_bytes = 0;
  uint64_t leased_bytes = 0;
  uint32_t leases = 0;
};

class NamespaceTable {
 public:
  static constexpr absl::string_view kDefault = "default";

  // Makes "default".
  explicit NamespaceTable(uint32_t max_namespaces);

  // See Core::OpenNamespace.
  absl::StatusOr<std::string> Open(absl::string_view name, absl::string_view fingerprint);
  // What a master before has opened. There is always room for it.
  void Restore(const DurableNamespace& known);
  // Empty is "default". NOT_FOUND/NAMESPACE_UNKNOWN.
  absl::StatusOr<NamespaceId> Resolve(absl::string_view name) const;
  // Where a part belongs that names its namespace so (SplitPartNamespace). nullopt: bad or not
  // known.
  struct Home {
    NamespaceId id = 0;
    bool is_of_its_layout = true;  // else its bytes are not what readers of the namespace expect
  };
  std::optional<Home> Find(absl::string_view part_namespace) const;
  // The same; one that nobody has opened yet is made, with the part's fingerprint. nullopt: bad
  // name or full.
  std::optional<Home> FindOrAdd(absl::string_view part_namespace);

  NamespaceRecord& operator[](NamespaceId id) { return records_[id]; }
  const NamespaceRecord& operator[](NamespaceId id) const { return records_[id]; }
  size_t size() const { return records_.size(); }

 private:
  std::optional<NamespaceId> Add(absl::string_view name, absl::string_view fingerprint = "");

  uint32_t max_;
  std::deque<NamespaceRecord> records_;  // by id
  absl::flat_hash_map<std::string, NamespaceId> by_name_;
};

}  // namespace moonpool::master
