// Many objects of one size whose bytes follow from their keys, put and read back in batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "moonpool/client.h"

namespace moonpool::scenarios {

struct Workload {
  size_t objects = 0;
  size_t bytes = 0;
  uint32_t replicas = 1;
};

// What was found of a workload by whoever looked at all of it.
struct Found {
  size_t readable = 0;
  size_t lost = 0;
  size_t wrong = 0;        // bytes of nobody, or of another key
  std::string first = {};  // the first error, for people

  Found& operator+=(const Found& other);
};

// One get of a key into `into`, which is as large as the object.
void Count(const std::string& key, const absl::StatusOr<size_t>& got,
           absl::Span<const std::byte> into, Found& found);

// Calls of a whole batch are long on a busy machine.
CallOptions Patient();
std::string KeyOf(size_t i);

// Clients with nothing in their location caches, one per thread that works.
absl::StatusOr<std::vector<std::unique_ptr<Client>>> ConnectMany(size_t clients,
                                                                 const ClientOptions& options);

// The clients share the work. All end by themselves; the first error is returned.
using Clients = std::vector<std::unique_ptr<Client>>;
absl::Status PutAll(const Clients& clients, const Workload& work);
// By the master's word.
Found CountReadable(const Clients& clients, const Workload& work);
// Every byte.
Found ReadAll(const Clients& clients, const Workload& work);

}  // namespace moonpool::scenarios
