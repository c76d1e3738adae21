// Which processes share this host's memory.
//
// A node advertises its host id, a client compares it with its own: equal means that shared memory
// is worth trying (when it cannot be had after all, as between two containers, TCP takes over).
// Both can be told another one in their configuration.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace moonpool {

// 16 hex digits from /etc/machine-id and the kernel's boot id: equal for all processes of one
// installation that runs, different after a reboot. Empty when neither can be read, which is equal
// to nobody's.
std::string LocalHostId();

// The same from given files.
std::string HostIdFrom(const std::string& machine_id_path, const std::string& boot_id_path);

}  // namespace moonpool
