// The data server over TCP.
//
//   auto server = NewTcpServer(target, {.listen_address = "10.0.0.7:0"}, clock, logger);
//   RETURN_IF_ERROR(server->Start());
//   Advertise(server->address());  // "10.0.0.7:41873"
//   ...
//   server->Stop();
//
// READ is answered straight from pool memory and WRITE is received straight into it: the server
// copies nothing and allocates nothing per operation. A connection whose peer does not take its
// answers is not read from any more; no connection gets more than a bounded turn while others wait.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "transport/server.h"
#include "transport/stream/limits.h"
#include "transport/target.h"

namespace moonpool::transport {

struct TcpServerOptions {
  // Numeric address and port: "127.0.0.1:0", "[::]:7420". Port 0 takes a free one.
  std::string listen_address = "127.0.0.1:0";
  StreamServerLimits limits = {};
  // For what the server sends. Empty: the system's default, but reno towards peers on the same
  // host, because BBR paces and costs a third of the throughput of loopback.
  std::string congestion_control = {};
  // Of every connection's socket. 0: the kernel tunes them by itself.
  size_t send_buffer_bytes = 0;
  size_t receive_buffer_bytes = 0;
};

// Borrows target, clock and logger until Stop has returned. Start fails with INVALID_ARGUMENT for
// bad options and UNAVAILABLE when the address cannot be taken.
std::unique_ptr<Server> NewTcpServer(Target& target, TcpServerOptions options, const Clock& clock,
                                     Logger& logger);

}  // namespace moonpool::transport
