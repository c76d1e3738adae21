// The client's side on the same host: the pool mapped into this process.
//
// A read is a copy out of the mapping, hashed on the way, without a message. A view is a pin in
// shared memory (no system call). A put claims its extents over the Unix socket, copies into the
// mapping, and seals: two small round trips for a whole batch. Payloads under 16 KiB, and all of
// them where the node gives no writable memory, travel through the socket instead: one round trip.
//
// All channels of one transport to one life of a node share the mapping and the pins. After a fork
// only the parent goes on using them; a child that lives on keeps the parent's pins alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "transport/channel.h"

namespace moonpool::transport {

struct ShmClientOptions {
  // PeerAddress::host_id of this host. Peers with another one are out of reach, and so is everybody
  // when it is empty and the peer's is not.
  std::string host_id;
  absl::Duration connect_timeout = absl::Milliseconds(800);
  // Per channel; Submit answers RESOURCE_EXHAUSTED beyond.
  size_t outstanding_ops_max = 4096;
  size_t outstanding_bytes_max = size_t{1} << 30;
  // Copied out of the pool by one Progress: the caller looks at its deadline in between. Less for
  // who has to look at something else as well. At least 1.
  size_t progress_bytes = 8u << 20;
  // Ask for writable memory. Without it payloads go through the socket.
  bool mapped_writes = true;
  uint64_t client_id = 0;
  // Besides root and this process's own user, who may own and hand over the files that are mapped.
  // Memory that its node's kernel keeps from shrinking (a memfd) is mapped from anybody.
  std::vector<uint32_t> trusted_uids = {};
};

// Borrows clock.
std::unique_ptr<Transport> NewShmTransport(ShmClientOptions options, const Clock& clock);

}  // namespace moonpool::transport
