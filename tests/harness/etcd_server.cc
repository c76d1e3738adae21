#include "tests/harness/etcd_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"
#include "tests/harness/tools.h"
#include "tests/harness/wait.h"

namespace moonpool::harness {
namespace {

// True: something accepts connections there.
bool Accepts(const std::string& endpoint) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(endpoint, ':');
  uint32_t port = 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (!absl::SimpleAtoi(parts.second, &port) ||
      inet_pton(AF_INET, parts.first.c_str(), &address.sin_addr) != 1) {
    return false;
  }
  address.sin_port = htons(static_cast<uint16_t>(port));
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

std::string WhyNoEtcd() {
  if (!PathOfTool("etcd").empty()) return "";
  return "etcd is not installed (package etcd-server); what needs a real one is not tested";
}

absl::StatusOr<std::unique_ptr<dev::ChildProcess>> SpawnEtcd(const EtcdServerOptions& options) {
  if (const std::string why = WhyNoEtcd(); !why.empty()) return absl::FailedPreconditionError(why);
  const std::string url =
      absl::StrCat(options.cert.empty() ? "http://" : "https://", options.endpoint);
  // A cluster of one never calls a peer: any address will do.
  const std::string peer = "http://127.0.0.1:1";
  std::vector<std::string> args = {absl::StrCat("--data-dir=", options.folder, "/data"),
                                   absl::StrCat("--listen-client-urls=", url),
                                   absl::StrCat("--advertise-client-urls=", url),
                                   "--listen-peer-urls=http://127.0.0.1:0",
                                   absl::StrCat("--initial-advertise-peer-urls=", peer),
                                   absl::StrCat("--initial-cluster=default=", peer),
                                   "--unsafe-no-fsync",
                                   "--bcrypt-cost=4",
                                   "--logger=zap",
                                   "--log-outputs=stderr"};
  if (!options.cert.empty()) {
    args.push_back(absl::StrCat("--cert-file=", options.cert));
    args.push_back(absl::StrCat("--key-file=", options.key));
  }
  if (!options.ca.empty()) {
    args.push_back("--client-cert-auth");
    args.push_back(absl::StrCat("--trusted-ca-file=", options.ca));
  }
  return dev::ChildProcess::Start({.name = "etcd",
                                   .program = PathOfTool("etcd"),
                                   .args = std::move(args),
                                   .log_path = options.folder + "/log",
                                   .output_path = options.folder + "/out"});
}

absl::StatusOr<std::unique_ptr<dev::ChildProcess>> StartEtcd(const EtcdServerOptions& options) {
  ASSIGN_OR_RETURN(auto etcd, SpawnEtcd(options));
  const bool is_up = Eventually([&] { return !etcd->running() || Accepts(options.endpoint); });
  if (is_up && etcd->running()) return etcd;
  return absl::UnavailableError(etcd->running() ? dev::TailOfFile(options.folder + "/log", 20)
                                                : etcd->DescribeEnd());
}

}  // namespace moonpool::harness
