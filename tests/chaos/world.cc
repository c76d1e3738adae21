#include "tests/chaos/world.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "tests/harness/wait.h"

namespace moonpool::chaos {
namespace {

using harness::HostedProcess;
using harness::kPatience;

constexpr size_t kKeys = 48;
constexpr size_t kNodes = 3;
constexpr size_t kLocalClients = 2;  // on the hosts of nodes; one more has a host to itself
// The pool holds all keys several times over, so that nothing is evicted.
constexpr uint64_t kDramBytes = uint64_t{96} << 20;
// A node that is back this little before it would be given up may have been given up.
constexpr absl::Duration kGivenUpSlack = absl::Milliseconds(500);

// Cuts are between hosts; which nodes the master then gives up depends on who leads.
bool TouchesAllNodes(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillNode:
    case FaultKind::kWipeNode:
    case FaultKind::kPauseNode:
    case FaultKind::kKillClient:
    case FaultKind::kPauseClient: return false;
    default: return true;
  }
}

bool TouchesItsNode(FaultKind kind) {
  return kind == FaultKind::kKillNode || kind == FaultKind::kWipeNode ||
         kind == FaultKind::kPauseNode;
}

}  // namespace

absl::StatusOr<std::unique_ptr<World>> World::Start(const WorldOptions& options) {
  std::unique_ptr<World> world(new World(options));
  RETURN_IF_ERROR(world->StartCluster());
  for (size_t i = 0; i < kLocalClients; ++i) {
    const harness::HostId host = world->cluster_->node(i).host();
    world->AddClient(host, harness::HostedCluster::HostIdOf(host));
  }
  ASSIGN_OR_RETURN(const harness::HostId host, world->network_->AddHost());
  world->AddClient(host, "a-client");
  for (const auto& client : world->clients_) RETURN_IF_ERROR(client->Start());
  return world;
}

absl::Status World::StartCluster() {
  ASSIGN_OR_RETURN(network_, harness::Network::Create(options_.logs_folder));
  ASSIGN_OR_RETURN(
      cluster_,
      harness::HostedCluster::Start(
          *network_,
          {.masters = options_.masters,
           .nodes = kNodes,
           .dram_bytes = kDramBytes,
           .master_args = {"--node-heartbeat", "200ms", "--node-session-timeout", "1s",
                           "--node-loss-timeout",
                           absl::StrCat(absl::ToInt64Milliseconds(options_.node_loss_timeout),
                                        "ms"),
                           "--grant-max", "5s", "--stripe-size", "1MiB"},
           .node_args = {"--link-backoff-max", "500ms"},
           .pools_folder = options_.pools_folder,
           .logs_folder = options_.logs_folder,
           .program_dir = options_.program_dir}));
  return absl::OkStatus();
}

void World::AddClient(harness::HostId host, const std::string& host_id) {
  clients_.push_back(std::make_unique<HostedProcess>(
      absl::StrCat("client-", clients_.size()), host, *network_,
      [this, host_id] { return SpawnWorker(host_id, /*verifies=*/false); }));
}

// Another id and file in each life.
absl::StatusOr<std::unique_ptr<dev::ChildProcess>> World::SpawnWorker(const std::string& host_id,
                                                                      bool verifies) {
  const size_t id = records_paths_.size() + 1;
  const std::string path = absl::StrCat(options_.logs_folder, "/records-", id);
  records_paths_.push_back(path);
  std::vector<std::string> args = {"worker",
                                   "--masters",
                                   absl::StrJoin(cluster_->master_addresses(), ","),
                                   "--host-id",
                                   host_id,
                                   "--records",
                                   path,
                                   "--id",
                                   absl::StrCat(id),
                                   "--seed",
                                   absl::StrCat(options_.seed),
                                   "--keys",
                                   absl::StrCat(kKeys)};
  if (verifies) args.push_back("--verify");
  return dev::ChildProcess::Start(
      {.name = absl::StrCat("worker-", id),
       .program = options_.worker_program,
       .args = std::move(args),
       .log_path = absl::StrCat(options_.logs_folder, "/worker-", id, ".log")});
}

Shape World::shape() const {
  return {.masters = options_.masters,
          .nodes = kNodes,
          .clients = clients_.size(),
          .hosts = network_->host_count() - 1};
}

std::vector<HostedProcess*> World::All() {
  std::vector<HostedProcess*> all = cluster_->processes();
  for (const auto& client : clients_) all.push_back(client.get());
  return all;
}

HostedProcess& World::TargetOf(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKillMaster:
    case FaultKind::kPauseMaster: return cluster_->master(fault.target);
    case FaultKind::kKillClient:
    case FaultKind::kPauseClient: return *clients_[fault.target];
    case FaultKind::kKillEtcd:
    case FaultKind::kPauseEtcd: return *cluster_->etcd();
    default: return cluster_->node(fault.target);
  }
}

void World::NoteDisturbance(const Fault& fault) {
  ++faults_[std::string(FaultName(fault.kind))];
  if (!std::exchange(is_disturbed_, true)) {
    excuses_.disturbed.push_back({.from = clock_.Now(), .to = absl::InfiniteFuture()});
  }
  if (TouchesItsNode(fault.kind)) touched_nodes_.insert(static_cast<uint32_t>(fault.target));
  for (uint32_t node = 0; TouchesAllNodes(fault.kind) && node < kNodes; ++node) {
    touched_nodes_.insert(node);
  }
}

absl::Status World::Begin(const Fault& fault) {
  NoteDisturbance(fault);
  const harness::HostId from = 1 + fault.target, to = 1 + fault.other;
  switch (fault.kind) {
    case FaultKind::kKillNode:
    case FaultKind::kKillMaster:
    case FaultKind::kKillClient:
    case FaultKind::kKillEtcd: return TargetOf(fault).Kill();
    case FaultKind::kPauseNode:
    case FaultKind::kPauseMaster:
    case FaultKind::kPauseClient:
    case FaultKind::kPauseEtcd: return TargetOf(fault).Pause();
    case FaultKind::kWipeNode:
      RETURN_IF_ERROR(TargetOf(fault).Kill());
      RETURN_IF_ERROR(cluster_->WipeNode(fault.target));
      excuses_.losses.push_back(
          {.node = static_cast<uint32_t>(fault.target),
           .when = {.from = excuses_.disturbed.back().from, .to = clock_.Now()}});
      return absl::OkStatus();
    case FaultKind::kCutOneWay: return network_->Cut(from, to);
    case FaultKind::kCutBothWays:
      RETURN_IF_ERROR(network_->Cut(to, from));
      return network_->Cut(from, to);
    case FaultKind::kIsolate: return network_->Isolate(from);
  }
  return absl::OkStatus();
}

absl::Status World::End(const Fault& fault) {
  const harness::HostId from = 1 + fault.target, to = 1 + fault.other;
  switch (fault.kind) {
    case FaultKind::kCutOneWay: return network_->Mend(from, to);
    case FaultKind::kCutBothWays:
      RETURN_IF_ERROR(network_->Mend(to, from));
      return network_->Mend(from, to);
    case FaultKind::kIsolate: return network_->Rejoin(from);
    default: break;
  }
  HostedProcess& target = TargetOf(fault);
  target.Resume();
  return target.is_down() ? target.Start() : absl::OkStatus();
}

absl::Status World::Heal() {
  RETURN_IF_ERROR(network_->Heal());
  RETURN_IF_ERROR(cluster_->StartAll());
  for (const auto& client : clients_) {
    client->Resume();
    if (client->is_down()) RETURN_IF_ERROR(client->Start());
  }
  return absl::OkStatus();
}

void World::BeginCalm() {
  if (!std::exchange(is_disturbed_, false)) return;
  history::Interval& disturbed = excuses_.disturbed.back();
  disturbed.to = clock_.Now();
  const absl::Duration took = disturbed.to - disturbed.from;
  longest_disturbance_ = std::max(longest_disturbance_, took);
  if (took + kGivenUpSlack > options_.node_loss_timeout) {
    for (const uint32_t node : touched_nodes_) {
      excuses_.losses.push_back({.node = node, .when = disturbed, .is_for_good = false});
    }
  }
  touched_nodes_.clear();
}

std::string World::FindDead() {
  for (HostedProcess* process : All()) {
    if (!process->is_down() && !process->is_running()) return process->child().DescribeEnd();
  }
  return "";
}

absl::Status World::StopClients() {
  for (const auto& client : clients_) client->child().Signal(SIGTERM);
  for (const auto& client : clients_) {
    if (!client->child().WaitForExit(kPatience)) {
      return absl::DeadlineExceededError(absl::StrCat(client->name(), " does not end"));
    }
  }
  return absl::OkStatus();
}

absl::Status World::Verify() {
  for (size_t i = 0; i < kLocalClients; ++i) {
    std::unique_ptr<dev::ChildProcess> verifier;
    const harness::HostId host = cluster_->node(i).host();
    RETURN_IF_ERROR(network_->On(host, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(verifier, SpawnWorker(harness::HostedCluster::HostIdOf(host),
                                             /*verifies=*/true));
      return absl::OkStatus();
    }));
    if (!verifier->WaitForExit(absl::Minutes(2))) {
      return absl::DeadlineExceededError("to read all keys takes too long");
    }
    if (verifier->Poll() != 0) return absl::InternalError(verifier->DescribeEnd());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<history::Record>> World::Records() const {
  std::vector<history::Record> all;
  for (const std::string& path : records_paths_) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    ASSIGN_OR_RETURN(std::vector<history::Record> records, history::ParseRecords(text.str()));
    all.insert(all.end(), std::make_move_iterator(records.begin()),
               std::make_move_iterator(records.end()));
  }
  return all;
}

}  // namespace moonpool::chaos
