// The server behind tcp and shm: accepts, and spreads the connections over the io threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limiter.h"
#include "transport/server.h"
#include "transport/stream/io_loop.h"
#include "transport/stream/limits.h"
#include "transport/stream/stream_backend.h"
#include "transport/target.h"

namespace moonpool::transport {

class StreamServer final : public Server, private IoLoop::Acceptor {
 public:
  // `name` is the backend's, for logs. Borrows target, clock and logger until Stop.
  StreamServer(std::string name, Target& target, std::unique_ptr<StreamBackend> backend,
               StreamServerLimits limits, const Clock& clock, Logger& logger);
  ~StreamServer() override;

  absl::Status Start() override;
  void Stop() override;
  std::string address() const override { return address_; }
  ServerCounters counters() const override;

 private:
  void OnAcceptable() override;
  bool AcceptOne();
  IoLoop& LeastLoaded();

  const std::string name_;
  Target& target_;
  const std::unique_ptr<StreamBackend> backend_;
  const StreamServerLimits limits_;
  const Clock& clock_;
  Logger& logger_;
  LogLimiter refusals_;  // lines about peers that are not served
  UniqueFd listener_;
  // Given back when descriptors run out, so that a waiting peer can be accepted and closed.
  UniqueFd spare_;
  std::string address_;
  std::vector<std::unique_ptr<IoLoop>> loops_;
};

}  // namespace moonpool::transport
