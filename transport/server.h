// A running data server of one backend on a node.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace moonpool::transport {

// What a server has done since Start, for metrics. Requests are counted when they are taken up.
struct ServerCounters {
  uint64_t connections_open = 0;
  uint64_t connections_total = 0;          // accepted and served
  uint64_t connections_refused_total = 0;  // over the limit of connections
  uint64_t handshakes_refused_total = 0;   // wrong version or incarnation
  uint64_t timeouts_total = 0;             // closed: silent in the handshake, stalled, or idle
  uint64_t bad_frames_total = 0;           // closed: bytes that are no frame of this protocol
  uint64_t reads_total = 0;
  uint64_t writes_total = 0;
  uint64_t claims_total = 0;
  uint64_t seals_total = 0;
  uint64_t releases_total = 0;
  uint64_t stale_total = 0;   // answered STALE_GENERATION or STALE_TERM
  uint64_t errors_total = 0;  // answered with any other error
  uint64_t received_bytes_total = 0;
  uint64_t sent_bytes_total = 0;
};

// Start and Stop from one thread. Stop is idempotent: it refuses new work, ends what runs, and
// joins its threads; the target is not called afterwards.
class Server {
 public:
  virtual ~Server() = default;
  virtual absl::Status Start() = 0;
  virtual void Stop() = 0;
  // Where peers connect, with the real port after Start: "127.0.0.1:41873" or a socket's path.
  virtual std::string address() const = 0;
  // Thread-safe.
  virtual ServerCounters counters() const = 0;
};

}  // namespace moonpool::transport
