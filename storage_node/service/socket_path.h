// Where a node's Unix socket is when nobody said.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonpool::storage_node {

// <folder>/<name>.sock, in a folder of this user alone (mode 0700), which is made when missing:
// /run/user/<uid>/moonpool, or /tmp/moonpool-<uid> where there is no /run/user/<uid>.
// FAILED_PRECONDITION when the folder is there and somebody else's.
absl::StatusOr<std::string> DefaultSocketPath(absl::string_view node_name);

// The same under given folders; an empty or missing `runtime_folder` is passed over.
absl::StatusOr<std::string> SocketPathUnder(const std::string& runtime_folder,
                                            const std::string& temp_folder,
                                            absl::string_view node_name);

}  // namespace moonpool::storage_node
