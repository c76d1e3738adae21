#include "tests/harness/network.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/dev_cluster/child_process.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "tests/harness/tools.h"
#include "tests/harness/wait.h"

namespace moonpool::harness {
namespace {

// Addresses in namespaces that nobody else sees.
constexpr char kPrefix[] = "10.77.0.";
constexpr size_t kHostsMax = 250;

UniqueFd OwnNamespace() { return UniqueFd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }

}  // namespace

std::string Network::WhyNot() {
  if (geteuid() != 0) return "network namespaces need root; run it as root";
  if (PathOfTool("ip").empty()) return "there is no `ip`; install the package iproute2";
  if (PathOfTool("nft").empty()) return "there is no `nft`; install the package nftables";
  return "";
}

absl::StatusOr<std::unique_ptr<Network>> Network::Create(std::string folder) {
  if (const std::string why = WhyNot(); !why.empty()) return absl::FailedPreconditionError(why);
  std::unique_ptr<Network> network(new Network(std::move(folder)));
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process may not make network namespaces: ", strerror(errno),
                     "; run it outside of a restricted container"));
  }
  network->hosts_.push_back(OwnNamespace());
  const std::vector<std::vector<std::string>> steps = {
      {"link", "set", "lo", "up"},
      {"link", "add", "bridge", "type", "bridge"},
      {"addr", "add", absl::StrCat(network->AddressOf(kSelf), "/24"), "dev", "bridge"},
      {"link", "set", "bridge", "up"}};
  for (const std::vector<std::string>& step : steps) {
    RETURN_IF_ERROR(network->RunOn(kSelf, "ip", step));
  }
  RETURN_IF_ERROR(network->AddFilter(kSelf));
  return network;
}

absl::StatusOr<HostId> Network::AddHost() {
  MP_CHECK(hosts_.size() < kHostsMax, "no address left");
  const HostId host = hosts_.size();
  if (unshare(CLONE_NEWNET) != 0) return absl::ErrnoToStatus(errno, "a network namespace");
  hosts_.push_back(OwnNamespace());
  MP_CHECK(setns(hosts_[kSelf].get(), CLONE_NEWNET) == 0, "cannot go back", errno);
  const std::string port = absl::StrCat("host", host);
  const std::string place = absl::StrCat("/proc/", getpid(), "/fd/", hosts_[host].get());
  RETURN_IF_ERROR(RunOn(
      kSelf, "ip", {"link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", place}));
  RETURN_IF_ERROR(RunOn(kSelf, "ip", {"link", "set", port, "master", "bridge", "up"}));
  RETURN_IF_ERROR(RunOn(host, "ip", {"link", "set", "lo", "up"}));
  RETURN_IF_ERROR(
      RunOn(host, "ip", {"addr", "add", absl::StrCat(AddressOf(host), "/24"), "dev", "eth0"}));
  RETURN_IF_ERROR(RunOn(host, "ip", {"link", "set", "eth0", "up"}));
  RETURN_IF_ERROR(AddFilter(host));
  return host;
}

std::string Network::AddressOf(HostId host) const { return absl::StrCat(kPrefix, host + 1); }

absl::Status Network::On(HostId host, const std::function<absl::Status()>& start) const {
  if (setns(hosts_[host].get(), CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("enter host ", host));
  }
  absl::Status status = start();
  MP_CHECK(setns(hosts_[kSelf].get(), CLONE_NEWNET) == 0, "cannot go back", errno);
  return status;
}

absl::Status Network::RunOn(HostId host, const std::string& tool,
                            std::vector<std::string> args) const {
  const std::string what = absl::StrCat(tool, " ", absl::StrJoin(args, " "));
  std::unique_ptr<dev::ChildProcess> child;
  RETURN_IF_ERROR(On(host, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(child, dev::ChildProcess::Start({.name = what,
                                                      .program = PathOfTool(tool),
                                                      .args = std::move(args),
                                                      .log_path = folder_ + "/network.log",
                                                      .output_path = folder_ + "/network.out"}));
    return absl::OkStatus();
  }));
  if (!child->WaitForExit(kPatience)) {
    return absl::DeadlineExceededError(absl::StrCat(what, " does not end"));
  }
  const int status = child->Poll().value_or(-1);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(child->DescribeEnd());
}

absl::Status Network::AddFilter(HostId host) const {
  return RunOn(host, "nft",
               {"add table inet cuts; add chain inet cuts in "
                "{ type filter hook input priority 0; }"});
}

// All rules of a host anew: what it must not hear.
absl::Status Network::Filter(HostId host) const {
  std::string rules = "flush chain inet cuts in";
  for (const auto& [from, to] : cuts_) {
    if (to != host) continue;
    absl::StrAppend(&rules, "; add rule inet cuts in ip saddr ", AddressOf(from), " drop");
  }
  return RunOn(host, "nft", {rules});
}

absl::Status Network::Cut(HostId from, HostId to) {
  cuts_.emplace(from, to);
  return Filter(to);
}

absl::Status Network::Mend(HostId from, HostId to) {
  cuts_.erase({from, to});
  return Filter(to);
}

absl::Status Network::Isolate(HostId host, Scope scope) {
  const HostId first = scope == Scope::kOthers ? kSelf + 1 : kSelf;
  for (HostId other = first; other < hosts_.size(); ++other) {
    if (other == host) continue;
    RETURN_IF_ERROR(Cut(host, other));
    cuts_.emplace(other, host);
  }
  return Filter(host);
}

absl::Status Network::Rejoin(HostId host) {
  for (HostId other = kSelf; other < hosts_.size(); ++other) {
    if (other == host) continue;
    RETURN_IF_ERROR(Mend(host, other));
    cuts_.erase({other, host});
  }
  return Filter(host);
}

absl::Status Network::Heal() {
  cuts_.clear();
  for (HostId host = kSelf; host < hosts_.size(); ++host) RETURN_IF_ERROR(Filter(host));
  return absl::OkStatus();
}

}  // namespace moonpool::harness
