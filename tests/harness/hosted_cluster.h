// Masters, nodes and etcd as processes, each on a host of its own (tests/harness/network.h), with
// the same address and folder in every life. What happens to them is up to the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/dev_cluster/child_process.h"
#include "tests/harness/network.h"

namespace moonpool::harness {

// One process, life after life.
class HostedProcess {
 public:
  using Spawn = std::function<absl::StatusOr<std::unique_ptr<dev::ChildProcess>>()>;

  HostedProcess(std::string name, HostId host, const Network& network, Spawn spawn);

  const std::string& name() const { return name_; }
  HostId host() const { return host_; }
  bool is_running() { return child_ != nullptr && child_->running(); }
  // Killed, or not started yet: that it does not run is as it should be.
  bool is_down() const { return is_down_; }
  bool is_paused() const { return is_paused_; }
  dev::ChildProcess& child() { return *child_; }

  absl::Status Start();  // when it does not run; does not wait until it serves
  absl::Status Kill();   // SIGKILL, and waits for the end
  absl::Status Pause();  // SIGSTOP, and waits until it has stopped
  void Resume();

 private:
  const std::string name_;
  const HostId host_;
  const Network& network_;
  const Spawn spawn_;
  std::unique_ptr<dev::ChildProcess> child_;
  bool is_down_ = true;
  bool is_paused_ = false;
};

struct HostedClusterOptions {
  size_t masters = 1;  // several: with etcd on a host of its own
  size_t nodes = 3;
  uint64_t dram_bytes = uint64_t{64} << 20;  // of each node
  std::vector<std::string> master_args = {};
  std::vector<std::string> node_args = {};
  std::string pools_folder = {};  // on tmpfs: the nodes keep their pools there; empty = memory only
  std::string logs_folder = {};   // also for what must outlive a master
  std::string program_dir = {};
};

// Used by one thread.
class HostedCluster {
 public:
  // Makes the hosts, starts all and waits until the pool is whole.
  static absl::StatusOr<std::unique_ptr<HostedCluster>> Start(Network& network,
                                                              HostedClusterOptions options);

  size_t master_count() const { return masters_.size(); }
  size_t node_count() const { return nodes_.size(); }
  HostedProcess& master(size_t i) { return *masters_[i]; }
  HostedProcess& node(size_t i) { return *nodes_[i]; }
  HostedProcess* etcd() { return etcd_.get(); }  // nullptr: there is one master
  std::vector<HostedProcess*> processes();
  const std::vector<std::string>& master_addresses() const { return master_addresses_; }
  // What clients on a node's host have to say to be served by shared memory.
  static std::string HostIdOf(HostId host);

  // The pool of a node that does not run is gone, as after a reboot.
  absl::Status WipeNode(size_t i);
  // Some master leads, all nodes are up and their inventories are complete.
  bool IsWhole();
  // The place of the master that leads, `except` aside; master_count() when none is known to.
  size_t Leader(size_t except = SIZE_MAX);
  // Whatever is down is started, whatever is paused goes on.
  absl::Status StartAll();

 private:
  HostedCluster(Network& network, HostedClusterOptions options);
  absl::Status AddEtcd();
  absl::Status AddMaster(size_t i);
  absl::Status AddNode(size_t i);
  absl::StatusOr<std::unique_ptr<dev::ChildProcess>> SpawnProgram(const std::string& name,
                                                                  const std::string& program,
                                                                  std::vector<std::string> args);

  Network& network_;
  const HostedClusterOptions options_;
  std::string etcd_endpoint_;
  std::vector<std::string> master_addresses_;
  std::unique_ptr<HostedProcess> etcd_;
  std::vector<std::unique_ptr<HostedProcess>> masters_;
  std::vector<std::unique_ptr<HostedProcess>> nodes_;
};

}  // namespace moonpool::harness
