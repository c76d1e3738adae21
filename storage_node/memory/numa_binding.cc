#include "storage_node/memory/numa_binding.h"

#include <numa.h>
#include <numaif.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::storage_node {

absl::StatusOr<bool> BindToNumaNode(absl::Span<std::byte> memory, int numa_node) {
  const bool has_numa = numa_available() != -1;
  const int last_node = has_numa ? numa_max_node() : 0;
  if (numa_node < 0 || numa_node > last_node ||
      (has_numa && !numa_bitmask_isbitset(numa_all_nodes_ptr, static_cast<unsigned>(numa_node)))) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
        absl::StrCat("there is no NUMA node ", numa_node, " here; the last is ", last_node),
        {.hint = "numactl --hardware lists them"});
  }
  if (last_node == 0) return false;
  bitmask* const nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(numa_node));
  const long result =
      mbind(memory.data(), memory.size(), MPOL_BIND, nodes->maskp, nodes->size + 1, MPOL_MF_STRICT);
  const int error = errno;
  numa_free_nodemask(nodes);
  if (result != 0) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("mbind of ", memory.size(), " bytes to NUMA node ", numa_node));
  }
  return true;
}

}  // namespace moonpool::storage_node
