// A storage node: memory, index, data servers and the link to the master, put together.
//
//   Node node(options, {clock, registry, logger});
//   RETURN_IF_ERROR(node.Start([&] { return stop.is_requested(); }));
//   ... node.name(), node.tcp_address(), node.shm_path(), node.health() ...
//   node.Stop();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/http/http_server.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "storage_node/link/link_metrics.h"
#include "storage_node/memory/segment_memory.h"
#include "storage_node/scrub/scrub_metrics.h"
#include "storage_node/serve/node_target.h"
#include "storage_node/service/copy_threads.h"
#include "storage_node/service/link_thread.h"
#include "storage_node/service/node_metrics.h"
#include "storage_node/service/node_pool.h"
#include "storage_node/service/scrub_thread.h"
#include "transport/server.h"

namespace moonpool::storage_node {

struct NodeOptions {
  std::vector<std::string> masters = {"127.0.0.1:7400"};  // tried in turn
  std::string name;                                       // empty: hostname-port of the data server
  std::string host_id;                                    // empty: found out (common/host_id.h)
  std::string rack;

  uint64_t dram_bytes = uint64_t{1} << 30;
  HugePages huge_pages = HugePages::kAuto;
  int prefault_threads = 0;  // 0 = one per processor, at most 8
  int numa_node = -1;        // -1 = anywhere
  // Where the pool lies so that it outlives the process; empty: it does not. Needs a name.
  std::string pool_dir;
  std::string pool_pins_dir;  // empty: in pool_dir
  absl::Duration pool_lock_wait = absl::Seconds(10);

  std::string data_listen = "127.0.0.1:0";
  // What clients are told, HOST:PORT; port 0 stands for the port listened on. Needed when
  // data_listen is every address of the host; empty: data_listen.
  std::string data_advertise;
  int io_threads = 2;  // of each data server
  size_t connections_max = 4096;
  bool shm_enabled = true;
  std::string shm_path;  // empty: see socket_path.h
  bool shm_mapped_writers = true;
  uint32_t shm_pin_slots = 4096;

  int copy_threads = 2;                        // that fetch parts from other nodes
  uint64_t scrub_bytes_per_second = 64 << 20;  // looked at for damage; 0: only what a reader doubts

  absl::Duration backoff_max = absl::Seconds(5);
  uint64_t parts_max = uint64_t{1} << 25;

  // What the ranges of single fields do not say.
  absl::Status Validate() const;
};

// Start and Stop on one thread, once each; the rest on any between them.
class Node {
 public:
  struct Dependencies {  // borrowed
    const Clock& clock;
    metrics::Registry& registry;
    Logger& logger;
  };
  Node(NodeOptions options, Dependencies dependencies);
  ~Node();  // stops
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Takes its memory, which may last minutes (`should_stop` ends that with CANCELLED), then
  // serves. The link to the master may still be on its way when it returns.
  absl::Status Start(std::function<bool()> should_stop = [] { return false; });
  // The master is left first, then copies and the data servers end. A pool with a folder stays
  // there for the next node. Idempotent.
  void Stop();

  const std::string& name() const { return identity_.name; }
  const std::string& tcp_address() const { return identity_.tcp_address; }  // as advertised
  const std::string& shm_path() const { return identity_.shm_path; }        // empty: none
  Incarnation incarnation() const { return identity_.incarnation; }
  // Healthy while the data servers run, with or without a master; the text says which.
  Health health() const;

 private:
  struct DataServer {
    std::unique_ptr<transport::Server> server;
    ServerMetrics metrics;
  };

  absl::Status StartPool(std::function<bool()> should_stop);
  void MakeScrubber();
  absl::Status StartTcp();
  absl::Status StartShm();
  void StartCopies();
  void StartLink();

  const NodeOptions options_;
  const Dependencies dependencies_;
  NodeIdentity identity_;

  ServeMetrics serve_metrics_;
  LinkMetrics link_metrics_;
  PoolMetrics pool_metrics_;
  ScrubMetrics scrub_metrics_;

  // In the order of their making; each uses those above it.
  std::unique_ptr<NodePool> pool_;
  std::unique_ptr<NodeTarget> target_;
  std::unique_ptr<ScrubThread> scrubber_;
  std::vector<DataServer> servers_;
  std::unique_ptr<CopyThreads> copies_;
  std::unique_ptr<LinkThread> link_;
};

}  // namespace moonpool::storage_node
