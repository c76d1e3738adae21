#include "tests/harness/hosted_cluster.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/master_link/master_link.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "tests/harness/etcd_server.h"
#include "tests/harness/leader_probe.h"
#include "tests/harness/wait.h"

namespace moonpool::harness {
namespace {

// Every process has a host to itself, so ports may be the same ones in every life.
constexpr int kEtcdPort = 2379;
constexpr int kMasterPort = 7400;
constexpr int kDataPort = 7500;
constexpr char kHttp[] = "127.0.0.1:7900";
// Of one question to the masters: while some are paused or cut off, others are asked.
constexpr absl::Duration kAskMax = absl::Seconds(2);

}  // namespace

HostedProcess::HostedProcess(std::string name, HostId host, const Network& network, Spawn spawn)
    : name_(std::move(name)), host_(host), network_(network), spawn_(std::move(spawn)) {}

absl::Status HostedProcess::Start() {
  MP_CHECK(!is_running(), "it runs already", name_);
  is_down_ = false;
  is_paused_ = false;
  return network_.On(host_, [this]() -> absl::Status {
    ASSIGN_OR_RETURN(child_, spawn_());
    return absl::OkStatus();
  });
}

absl::Status HostedProcess::Kill() {
  if (!is_running()) return absl::OkStatus();
  is_down_ = true;
  child_->Signal(SIGKILL);
  if (child_->WaitForExit(kPatience)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(name_, " does not die"));
}

absl::Status HostedProcess::Pause() {
  if (!is_running() || is_paused_) return absl::OkStatus();
  is_paused_ = true;
  child_->Signal(SIGSTOP);
  const bool has_stopped = Eventually([this] {
    // Zero when there is nothing to tell yet. WSTOPPED leaves the end of the child to its owner.
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(child_->pid()), &info, WSTOPPED | WNOHANG) == 0 &&
           info.si_pid == child_->pid();
  });
  if (has_stopped) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(name_, " does not stop"));
}

void HostedProcess::Resume() {
  if (!std::exchange(is_paused_, false)) return;
  child_->Signal(SIGCONT);
}

HostedCluster::HostedCluster(Network& network, HostedClusterOptions options)
    : network_(network), options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<HostedCluster>> HostedCluster::Start(Network& network,
                                                                    HostedClusterOptions options) {
  std::unique_ptr<HostedCluster> cluster(new HostedCluster(network, std::move(options)));
  if (cluster->options_.masters > 1) RETURN_IF_ERROR(cluster->AddEtcd());
  for (size_t i = 0; i < cluster->options_.masters; ++i) RETURN_IF_ERROR(cluster->AddMaster(i));
  for (size_t i = 0; i < cluster->options_.nodes; ++i) RETURN_IF_ERROR(cluster->AddNode(i));
  RETURN_IF_ERROR(cluster->StartAll());
  if (Eventually([&] { return cluster->IsWhole(); })) return cluster;
  std::string words;
  for (HostedProcess* process : cluster->processes()) {
    if (!process->is_running()) absl::StrAppend(&words, "; ", process->child().DescribeEnd());
  }
  return absl::UnavailableError(absl::StrCat("the pool does not become whole", words));
}

absl::Status HostedCluster::AddEtcd() {
  ASSIGN_OR_RETURN(const HostId host, network_.AddHost());
  etcd_endpoint_ = absl::StrCat(network_.AddressOf(host), ":", kEtcdPort);
  const EtcdServerOptions options{.folder = options_.logs_folder + "/etcd",
                                  .endpoint = etcd_endpoint_};
  std::filesystem::create_directory(options.folder);
  etcd_ = std::make_unique<HostedProcess>("etcd", host, network_,
                                          [options] { return SpawnEtcd(options); });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<dev::ChildProcess>> HostedCluster::SpawnProgram(
    const std::string& name, const std::string& program, std::vector<std::string> args) {
  return dev::ChildProcess::Start(
      {.name = name,
       .program = absl::StrCat(options_.program_dir, "/", program),
       .args = std::move(args),
       .log_path = absl::StrCat(options_.logs_folder, "/", name, ".log"),
       .output_path = absl::StrCat(options_.logs_folder, "/", name, ".out")});
}

absl::Status HostedCluster::AddMaster(size_t i) {
  ASSIGN_OR_RETURN(const HostId host, network_.AddHost());
  const std::string name = absl::StrCat("master-", i);
  master_addresses_.push_back(absl::StrCat(network_.AddressOf(host), ":", kMasterPort));
  std::vector<std::string> args = {"--listen", master_addresses_.back(), "--http-listen", kHttp};
  if (options_.masters > 1) {
    args.insert(args.end(), {"--etcd-endpoints", etcd_endpoint_});
  } else {
    args.insert(args.end(), {"--meta-dir", options_.logs_folder + "/meta"});
  }
  args.insert(args.end(), options_.master_args.begin(), options_.master_args.end());
  masters_.push_back(std::make_unique<HostedProcess>(name, host, network_, [this, name, args] {
    return SpawnProgram(name, "moonpool-master", args);
  }));
  return absl::OkStatus();
}

absl::Status HostedCluster::AddNode(size_t i) {
  ASSIGN_OR_RETURN(const HostId host, network_.AddHost());
  const std::string name = absl::StrCat("node-", i);
  std::vector<std::string> args = {
      "--master",      absl::StrJoin(master_addresses_, ","),
      "--name",        name,
      "--host-id",     HostIdOf(host),
      "--dram",        absl::StrCat(options_.dram_bytes),
      "--data-listen", absl::StrCat(network_.AddressOf(host), ":", kDataPort),
      "--http-listen", kHttp,
      "--shm-path",    absl::StrCat(options_.logs_folder, "/", name, ".sock")};
  if (!options_.pools_folder.empty()) {
    args.insert(args.end(), {"--pool-dir", absl::StrCat(options_.pools_folder, "/", name)});
  }
  args.insert(args.end(), options_.node_args.begin(), options_.node_args.end());
  nodes_.push_back(std::make_unique<HostedProcess>(name, host, network_, [this, name, args] {
    return SpawnProgram(name, "moonpool-node", args);
  }));
  return absl::OkStatus();
}

std::string HostedCluster::HostIdOf(HostId host) { return absl::StrCat("host-", host); }

std::vector<HostedProcess*> HostedCluster::processes() {
  std::vector<HostedProcess*> all;
  if (etcd_ != nullptr) all.push_back(etcd_.get());
  for (const auto& master : masters_) all.push_back(master.get());
  for (const auto& node : nodes_) all.push_back(node.get());
  return all;
}

absl::Status HostedCluster::StartAll() {
  for (HostedProcess* process : processes()) {
    process->Resume();
    if (process->is_down()) RETURN_IF_ERROR(process->Start());
  }
  return absl::OkStatus();
}

absl::Status HostedCluster::WipeNode(size_t i) {
  MP_CHECK(!node(i).is_running(), "its pool is in use", node(i).name());
  std::error_code error;
  std::filesystem::remove_all(absl::StrCat(options_.pools_folder, "/", node(i).name()), error);
  if (error) return absl::InternalError(absl::StrCat("remove a pool: ", error.message()));
  return absl::OkStatus();
}

bool HostedCluster::IsWhole() {
  const size_t leader = Leader();
  if (leader == masters_.size()) return false;
  const auto list = cli::MasterLink({master_addresses_[leader]}, kAskMax).ListNodes();
  if (!list.ok()) return false;
  size_t complete = 0;
  for (const v1::NodeStatus& node : list->nodes())
    complete += node.up() && node.inventory_complete();
  return complete == nodes_.size();
}

size_t HostedCluster::Leader(size_t except) {
  for (size_t i = 0; i < masters_.size(); ++i) {
    const bool answers = i != except && masters_[i]->is_running() && !masters_[i]->is_paused();
    if (answers && Leads(master_addresses_[i], kAskMax)) return i;
  }
  return masters_.size();
}

}  // namespace moonpool::harness
