// How much a stream server (tcp, shm) lets its peers cost it.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace moonpool::transport {

struct StreamServerLimits {
  // Threads named io-0, io-1, ...; each serves its share of the connections. 1 to 64.
  int threads = 2;
  // Further peers are answered RESOURCE_EXHAUSTED/LIMIT_REACHED and closed.
  size_t connections_max = 4096;
  // From accept to a complete HELLO.
  absl::Duration handshake_timeout = absl::Seconds(5);
  // Without a byte moved in the middle of a frame or of an answer.
  absl::Duration stall_timeout = absl::Seconds(30);
  // Without a byte moved otherwise. A client finds the closed connection when it next looks
  // (Channel::healthy) and connects again.
  absl::Duration idle_timeout = absl::Minutes(10);
  // Extents that one connection has claimed or written, and not yet sealed.
  size_t claims_max = 4096;

  // INVALID_ARGUMENT names the first field that is out of its range.
  absl::Status Validate() const;
};

}  // namespace moonpool::transport
