// A running data server of one backend on a node.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace moonpool::transport {

// Start and Stop from one thread. Stop is idempotent: it refuses new work, ends what runs, and
// joins its threads; the target is not called afterwards.
class Server {
 public:
  virtual ~Server() = default;
  virtual absl::Status Start() = 0;
  virtual void Stop() = 0;
  // Where peers connect, with the real port after Start: "127.0.0.1:41873" or a socket's path.
  virtual std::string address() const = 0;
};

}  // namespace moonpool::transport
