// The hashes of a batch's keys, one after the other. What the table will look at for the next ones
// is brought into the cache meanwhile: among millions of objects each key waits for memory three
// times, and a processor can wait for some thirty such at once.
//
//   LookAhead ahead(objects, name_space, keys);
//   for (absl::string_view key : keys) slot = objects.Find(ahead.Next(), name_space, key);
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "master/core/commands.h"
#include "master/core/object_table.h"

namespace moonpool::master {

// Borrows the table and the keys, which are texts or have one.
template <typename Item>
class LookAhead {
 public:
  LookAhead(const ObjectTable& objects, NamespaceId name_space, absl::Span<const Item> items)
      : objects_(objects), name_space_(name_space), items_(items) {}

  // Of the first key, then of the one after it; once for each key at most.
  uint64_t Next() {
    if (next_ % hashes_.size() == 0) Refill();
    return hashes_[next_++ % hashes_.size()];
  }

 private:
  void Refill() {
    const absl::Span<const Item> some = items_.subspan(next_, hashes_.size());
    for (size_t i = 0; i < some.size(); ++i) hashes_[i] = KeyHash(name_space_, TextOf(some[i]));
    objects_.Prefetch(absl::MakeSpan(hashes_).first(some.size()));
  }
  static absl::string_view TextOf(absl::string_view key) { return key; }
  static absl::string_view TextOf(const PutKey& put) { return put.key; }

  const ObjectTable& objects_;
  const NamespaceId name_space_;
  const absl::Span<const Item> items_;
  size_t next_ = 0;
  std::array<uint64_t, ObjectTable::kPrefetchKeys> hashes_;
};

}  // namespace moonpool::master
