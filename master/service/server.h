// A master: its core and handlers, and gRPC around them. One that is alone serves from the start:
//
//   MasterServer server(options, handlers, Mastership::kAlone, {clock, registry, logger});
//   server.ServeAlone(std::move(core), std::move(store));
//   RETURN_IF_ERROR(server.Start());
//   ... server.address() ...
//   server.Stop();
//
// One of several answers NOT_LEADER until it is elected. It stands once others can call it:
//
//   MasterServer server(options, handlers, Mastership::kElected, {clock, registry, logger});
//   RETURN_IF_ERROR(server.Start());
//   server.StandForElection({.election = {.address = server.address()}}, etcd);
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/http/http_server.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "master/core/core.h"
#include "master/handlers/options.h"
#include "master/handlers/reigns.h"
#include "master/meta/meta_store.h"
#include "master/service/candidacy.h"

namespace moonpool::master {

struct ServerOptions {
  std::string listen = "127.0.0.1:7400";      // port 0: any free one
  uint64_t memory_bytes = uint64_t{1} << 30;  // of calls in flight
  size_t call_threads = 0;                    // that serve unary calls; 0: a quarter of the CPUs
  int max_streams = 4096;                     // calls in flight per connection
  // A call of 16384 keys with parents fits, as does a large slice of an inventory.
  int max_message_bytes = 64 << 20;
  absl::Duration stop_timeout = absl::Seconds(2);
  // A connection that is dead but not closed is found out within keepalive + its timeout.
  absl::Duration keepalive_interval = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(5);
};

// Start and Stop on one thread; the rest on any.
class MasterServer {
 public:
  struct Dependencies {  // borrowed
    const Clock& clock;
    metrics::Registry& registry;
    Logger& logger;
  };
  MasterServer(ServerOptions options, const HandlersOptions& handlers, Mastership mastership,
               Dependencies dependencies);
  ~MasterServer();  // stops
  MasterServer(const MasterServer&) = delete;
  MasterServer& operator=(const MasterServer&) = delete;

  // Of a master that is alone. The store is that of a core that keeps durable state, else nullptr.
  void ServeAlone(std::unique_ptr<Core> core, std::unique_ptr<MetaStore> store = nullptr);
  // After Start, of one that is not. Borrows etcd, until Stop; calls to it may go on a little
  // longer.
  void StandForElection(CandidacyOptions options, Etcd& etcd);

  // Binds and serves. INVALID_ARGUMENT: `listen` is no address; UNAVAILABLE: it cannot be bound.
  absl::Status Start();
  // Resigns. Calls that wait are answered with UNAVAILABLE/SHUTTING_DOWN, or NOT_LEADER, sessions
  // end; returns after stop_timeout at the latest, give or take what a cancelled call and a
  // resignation need. Idempotent.
  void Stop();

  // HOST:PORT, the port filled in. After Start.
  const std::string& address() const { return address_; }
  // Unhealthy: it needs a restart, or has not started.
  Health health() const;
  // Names of the nodes that take part: up, and their inventory complete. UNAVAILABLE when this
  // master does not lead. After Start.
  absl::StatusOr<std::vector<std::string>> ServingNodes();

 private:
  class Edge;  // all that knows gRPC

  const ServerOptions options_;
  Logger& logger_;
  std::unique_ptr<Edge> edge_;
  std::string address_;
  std::atomic<bool> is_serving_ = false;
};

}  // namespace moonpool::master
