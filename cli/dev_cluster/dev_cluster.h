// A local cluster for development, tests and benchmarks: one moonpool-master and some moonpool-node
// processes on free loopback ports, with a private run directory. They end with this process.
//
//   ASSIGN_OR_RETURN(auto cluster, DevCluster::Start({.nodes = 3, .dram_bytes = 64 << 20}));
//   Client::Connect({.masters = {cluster->master_address()}});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/dev_cluster/child_process.h"

namespace moonpool::dev {

struct DevClusterOptions {
  size_t nodes = 1;
  uint64_t dram_bytes = uint64_t{256} << 20;  // of each node
  std::string master_listen = "127.0.0.1:0";
  std::vector<std::string> master_args = {};  // passed on, e.g. --eviction-policy
  std::vector<std::string> node_args = {};
  bool verbose = false;          // logs to stderr instead of files
  std::string program_dir = {};  // empty = where this program lies
  absl::Duration start_timeout = absl::Seconds(60);
  int stop_fd = -1;  // readable: give up starting
};

// A running child and the addresses it printed, by flag name without dashes ("master", "http").
struct Member {
  std::unique_ptr<ChildProcess> process;
  std::map<std::string, std::string> addresses;
};

// Used by one thread, the one that starts it (see ChildProcess).
class DevCluster {
 public:
  // Returns when every node is registered and its inventory is complete.
  static absl::StatusOr<std::unique_ptr<DevCluster>> Start(DevClusterOptions options);
  ~DevCluster();  // Stop()

  const std::string& master_address() const { return master_address_; }
  const std::string& run_dir() const { return run_dir_; }
  Member& master() { return master_; }
  Member& node(size_t index) { return nodes_[index]; }
  size_t node_count() const { return nodes_.size(); }

  // Blocks until `stop_fd` is readable (OK), or a child ended (how, and its last words).
  absl::Status Watch(int stop_fd);

  // Starts the master again, which has ended, at the same address.
  absl::Status RestartMaster();
  // Starts a node that has ended again, with the same name.
  absl::Status RestartNode(size_t index);
  // Until `nodes` nodes are up with complete inventories, within the start timeout.
  absl::Status WaitForNodes(size_t nodes);

  // Nodes first, then the master: SIGTERM, a bounded wait, SIGKILL. Removes the run directory.
  void Stop();

 private:
  explicit DevCluster(DevClusterOptions options) : options_(std::move(options)) {}
  absl::Status MakeRunDir();
  absl::Status StartMaster();
  absl::Status StartNode(size_t index);
  absl::StatusOr<Member> StartMember(const std::string& name, const std::string& program,
                                     std::vector<std::string> args);
  absl::Status CheckChildren();  // not OK: one has ended

  DevClusterOptions options_;
  std::string run_dir_;
  std::string master_address_;
  Member master_;
  std::vector<Member> nodes_;
};

// The directory of the running executable.
std::string OwnProgramDir();

}  // namespace moonpool::dev
