// The pool that is broken and healed, its clients, and what has been done to them so far.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "tests/chaos/faults.h"
#include "tests/harness/hosted_cluster.h"
#include "tests/harness/network.h"
#include "tests/history/checker.h"

namespace moonpool::chaos {

struct WorldOptions {
  uint64_t seed = 1;
  size_t masters = 1;
  absl::Duration node_loss_timeout = absl::Seconds(5);
  std::string pools_folder = {};  // on tmpfs
  std::string logs_folder = {};   // logs, records, what outlives a master
  std::string program_dir = {};
  std::string worker_program = {};  // started with "worker" and its settings
};

// Used by one thread.
class World {
 public:
  // When the pool is whole and the clients are on their way.
  static absl::StatusOr<std::unique_ptr<World>> Start(const WorldOptions& options);

  Shape shape() const;

  absl::Status Begin(const Fault& fault);
  absl::Status End(const Fault& fault);
  // Everything runs and is connected.
  absl::Status Heal();
  bool IsWhole() { return cluster_->IsWhole(); }
  // From now on nothing excuses an absence or an error, until the next fault.
  void BeginCalm();
  // How a process has ended that nobody has killed; empty when there is none.
  std::string FindDead();

  // Clients finish what they have begun. Then two others, on different hosts, look at all keys.
  absl::Status StopClients();
  absl::Status Verify();

  absl::StatusOr<std::vector<history::Record>> Records() const;
  const history::Excuses& excuses() const { return excuses_; }
  const std::map<std::string, uint64_t>& faults() const { return faults_; }
  absl::Duration longest_disturbance() const { return longest_disturbance_; }

 private:
  World(const WorldOptions& options) : options_(options) {}
  absl::Status StartCluster();
  void AddClient(harness::HostId host, const std::string& host_id);
  absl::StatusOr<std::unique_ptr<dev::ChildProcess>> SpawnWorker(const std::string& host_id,
                                                                 bool verifies);
  std::vector<harness::HostedProcess*> All();
  harness::HostedProcess& TargetOf(const Fault& fault);
  void NoteDisturbance(const Fault& fault);

  const SteadyClock clock_ = {};
  const WorldOptions options_;
  std::unique_ptr<harness::Network> network_;
  std::unique_ptr<harness::HostedCluster> cluster_;
  std::vector<std::unique_ptr<harness::HostedProcess>> clients_;
  std::vector<std::string> records_paths_;
  history::Excuses excuses_;
  bool is_disturbed_ = false;
  std::set<uint32_t> touched_nodes_;  // that may be given up in this disturbance
  std::map<std::string, uint64_t> faults_;
  absl::Duration longest_disturbance_;
};

}  // namespace moonpool::chaos
