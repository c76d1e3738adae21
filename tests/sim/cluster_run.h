// One run: what happens when, and what is looked at. RunCluster (cluster.h) is its use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/random.h"
#include "tests/sim/cluster.h"
#include "tests/sim/model.h"
#include "tests/sim/options.h"
#include "tests/sim/placement_check.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_masters.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_operator.h"
#include "tests/sim/sim_watcher.h"
#include "transport/sim/network.h"
#include "transport/sim/scheduler.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::sim {

class Cluster {
 public:
  explicit Cluster(const SimOptions& options);

  SimResult Run();

 private:
  // --- cluster.cc
  void RunUntil(absl::Time limit);
  // "" is none.
  void Violate(absl::string_view what);
  void StartNode(const std::string& name) { StartNode(name, SimPool::New(options_.node_bytes)); }
  void StartNode(const std::string& name, SimPool pool);
  SimClient* NewClient();
  void StartClient();
  // Of several masters; what the one before knew, this one has to learn.
  void ReignBegins();
  void MasterIsUnknowing();
  bool MasterKnowsAll();
  void HealEverything();
  SimResult Finish(absl::Time begin);
  void CollectProbes();

  // --- cluster_faults.cc
  // Poisson processes, drawn as waiting times.
  void Schedule(double per_second, void (Cluster::*fault)());
  void ScheduleFaults();
  SimNode* AnyLivingNode();
  void CrashANode();
  // Its next process takes the pool over: at once, or when the master has given the node up.
  void KillANode();
  // Its machine is taken away. Another one joins, and the operator says that the first is gone.
  void HaveANodeDepart();
  // No fault: an operator wants it empty, and half of the time thinks better of it.
  void DrainANode();
  void PauseANode();
  SimClient* AnyRunningClient();
  void CrashAClient();
  void FreezeAClient();
  // The leader, half of the time.
  SimMaster& AnyMaster();
  void CrashTheMaster();
  void PauseAMaster();
  void CutAMaster();
  void StopEtcd();
  void CutSomething();
  // Not of what is viewed: nobody promises that a view has the bytes looked at.
  void RotABit();

  // --- cluster_checks.cc
  void ScheduleCheck();
  void CheckMasters();
  void CheckPlacement();
  // With everything healed and every deadline past, nothing may be left open, and what the master
  // says is stored must be read by a client that knows nothing yet.
  void FinalChecks();
  void CheckObjects(const SimMaster& leader);
  // A node whose drain was called off takes what is put on its own host.
  void UseAgain(const std::string& node);
  void ReadBack();

  // Long enough for every deadline, straggler and time-out of the run to pass, and for a source of
  // copies that the last fault has put in doubt to be read again.
  static constexpr absl::Duration kQuiesce = absl::Seconds(75);

  const SimOptions options_;
  Random random_;
  std::string violation_;
  std::map<std::string, uint64_t> probes_;
  absl::Time end_ = absl::InfiniteFuture();
  Scheduler scheduler_;
  Network network_;
  SimFabric fabric_;
  Model model_;
  SimMasters masters_;
  SimOperator operator_;
  PlacementCheck placement_;
  SimWatcher watcher_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  uint64_t last_client_ = 0;
  int next_node_ = 0;
  std::set<std::string> killed_;  // and not started again yet
  bool is_recovering_ = false;
  bool has_led_ = false;
};

}  // namespace moonpool::sim
