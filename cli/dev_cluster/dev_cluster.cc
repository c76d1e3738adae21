#include "cli/dev_cluster/dev_cluster.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/master_link/master_link.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::dev {
namespace {

constexpr absl::string_view kReady = "ready:";
constexpr absl::Duration kStopGrace = absl::Seconds(5);
constexpr int kPollMillis = 20;  // between two looks at the list of nodes

// "ready: --master A --http B" -> {master: A, http: B}.
std::map<std::string, std::string> ParseReadyLine(absl::string_view line) {
  std::map<std::string, std::string> addresses;
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  for (size_t i = 1; i + 1 < words.size(); i += 2) {
    addresses[words[i].substr(std::min(words[i].size(), words[i].find_first_not_of('-')))] =
        words[i + 1];
  }
  return addresses;
}

// A master that could not listen names its own flag.
absl::Status WithListenHint(const absl::Status& status) {
  return MakeError(status.code(), ReasonOf(status), status.message(),
                   {.hint = "`moonpool dev` has --master-listen for the master's --listen"});
}

}  // namespace

std::string OwnProgramDir() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

absl::StatusOr<std::unique_ptr<DevCluster>> DevCluster::Start(DevClusterOptions options) {
  if (options.program_dir.empty()) options.program_dir = OwnProgramDir();
  std::unique_ptr<DevCluster> cluster(new DevCluster(std::move(options)));
  RETURN_IF_ERROR(cluster->MakeRunDir());
  RETURN_IF_ERROR(cluster->StartMaster());
  for (size_t i = 0; i < cluster->options_.nodes; ++i) {
    cluster->nodes_.emplace_back();
    RETURN_IF_ERROR(cluster->StartNode(i));
  }
  RETURN_IF_ERROR(cluster->WaitForNodes(cluster->options_.nodes));
  return cluster;
}

DevCluster::~DevCluster() { Stop(); }

absl::Status DevCluster::MakeRunDir() {
  // Short, since the path of a Unix socket has at most 107 characters.
  std::string path = "/tmp/moonpool-dev-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return MakeError(absl::ErrnoToStatusCode(errno), ErrorReason::kUnspecified,
                     absl::StrCat("make a run directory ", path, ": ", std::strerror(errno)),
                     {.hint = "make /tmp writable, with some room for logs and sockets"});
  }
  run_dir_ = path;
  return absl::OkStatus();
}

absl::StatusOr<Member> DevCluster::StartMember(const std::string& name, const std::string& program,
                                               std::vector<std::string> args) {
  Member member;
  ASSIGN_OR_RETURN(
      member.process,
      ChildProcess::Start(
          {.name = name,
           .program = absl::StrCat(options_.program_dir, "/", program),
           .args = std::move(args),
           .log_path = options_.verbose ? "" : absl::StrCat(run_dir_, "/", name, ".log")}));
  ASSIGN_OR_RETURN(const std::string line,
                   member.process->WaitForLine(kReady, options_.start_timeout, options_.stop_fd));
  member.addresses = ParseReadyLine(line);
  return member;
}

absl::Status DevCluster::StartMaster() {
  std::vector<std::string> args = {"--listen", options_.master_listen, "--http-listen",
                                   "127.0.0.1:0"};
  args.insert(args.end(), options_.master_args.begin(), options_.master_args.end());
  auto master = StartMember("master", "moonpool-master", std::move(args));
  if (absl::IsUnavailable(master.status())) return WithListenHint(master.status());
  ASSIGN_OR_RETURN(master_, std::move(master));
  master_address_ = master_.addresses["master"];
  return absl::OkStatus();
}

absl::Status DevCluster::StartNode(size_t index) {
  const std::string name = absl::StrCat("node-", index);
  std::vector<std::string> args = {"--master",      master_address_,
                                   "--name",        name,
                                   "--dram",        absl::StrCat(options_.dram_bytes),
                                   "--data-listen", "127.0.0.1:0",
                                   "--http-listen", "127.0.0.1:0",
                                   "--shm-path",    absl::StrCat(run_dir_, "/", name, ".sock")};
  args.insert(args.end(), options_.node_args.begin(), options_.node_args.end());
  ASSIGN_OR_RETURN(nodes_[index], StartMember(name, "moonpool-node", std::move(args)));
  return absl::OkStatus();
}

absl::Status DevCluster::RestartMaster() {
  if (master_.process->running()) return absl::FailedPreconditionError("the master still runs");
  options_.master_listen = master_address_;
  return StartMaster();
}

absl::Status DevCluster::RestartNode(size_t index) {
  if (nodes_[index].process->running()) {
    return absl::FailedPreconditionError(
        absl::StrCat(nodes_[index].process->name(), " still runs"));
  }
  return StartNode(index);
}

absl::Status DevCluster::CheckChildren() {
  if (!master_.process->running()) return absl::UnavailableError(master_.process->DescribeEnd());
  for (Member& node : nodes_) {
    if (!node.process->running()) return absl::UnavailableError(node.process->DescribeEnd());
  }
  return absl::OkStatus();
}

absl::Status DevCluster::WaitForNodes(size_t nodes) {
  const SteadyClock clock;
  const absl::Time deadline = clock.Now() + options_.start_timeout;
  cli::MasterLink link({master_address_}, absl::Seconds(5));
  while (true) {
    RETURN_IF_ERROR(CheckChildren());
    ASSIGN_OR_RETURN(const v1::ListNodesResponse list, link.ListNodes());
    size_t complete = 0;
    for (const v1::NodeStatus& node : list.nodes()) {
      complete += node.up() && node.inventory_complete() ? 1 : 0;
    }
    if (complete == nodes) return absl::OkStatus();
    if (clock.Now() >= deadline) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                       absl::StrCat(complete, " of ", nodes, " nodes registered within ",
                                    absl::FormatDuration(options_.start_timeout)));
    }
    pollfd wait = {options_.stop_fd, POLLIN, 0};
    if (poll(&wait, 1, kPollMillis) > 0) return absl::CancelledError("stopped while starting");
  }
}

absl::Status DevCluster::Watch(int stop_fd) {
  std::vector<pollfd> waits = {{stop_fd, POLLIN, 0}, {master_.process->exit_fd(), POLLIN, 0}};
  for (Member& node : nodes_) waits.push_back({node.process->exit_fd(), POLLIN, 0});
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "poll");
    }
    if (waits[0].revents != 0) return absl::OkStatus();
    RETURN_IF_ERROR(CheckChildren());
  }
}

void DevCluster::Stop() {
  // All nodes are asked at once, so that the grace is waited for once, not once per node.
  for (Member& node : nodes_) {
    if (node.process != nullptr) node.process->Signal(SIGTERM);
  }
  for (Member& node : nodes_) {
    if (node.process != nullptr) node.process->Terminate(kStopGrace);
  }
  if (master_.process != nullptr) master_.process->Terminate(kStopGrace);
  nodes_.clear();
  master_ = Member();
  if (run_dir_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(run_dir_, ignored);
  run_dir_.clear();
}

}  // namespace moonpool::dev
