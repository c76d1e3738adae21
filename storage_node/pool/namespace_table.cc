#include "storage_node/pool/namespace_table.h"

#include "common/check.h"

namespace moonpool::storage_node {

NamespaceTable::Id NamespaceTable::Acquire(absl::string_view name) {
  if (const auto it = ids_.find(name); it != ids_.end()) {
    ++entries_[it->second].uses;
    return it->second;
  }
  Id id = static_cast<Id>(entries_.size());
  if (unused_.empty()) {
    entries_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  entries_[id] = Entry{.name = std::string(name), .uses = 1};
  ids_.emplace(name, id);
  return id;
}

void NamespaceTable::Release(Id id) {
  Entry& entry = entries_[id];
  MP_CHECK(entry.uses > 0, "namespace released more often than acquired", id);
  if (--entry.uses > 0) return;
  ids_.erase(entry.name);
  entry.name.clear();
  unused_.push_back(id);
}

}  // namespace moonpool::storage_node
