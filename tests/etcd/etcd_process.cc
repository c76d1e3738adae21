#include "tests/etcd/etcd_process.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"
#include "etcd/rpc.grpc.pb.h"

namespace moonpool::etcd_tests {
namespace {

namespace pb = etcdserverpb;

constexpr int kPollMillis = 5;
// Somebody else may take the port between its choice and its use.
constexpr int kPortAttempts = 10;

uint16_t FreePort() {
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(probe.get(), any, size) != 0 || getsockname(probe.get(), any, &size) != 0) return 0;
  return ntohs(address.sin_port);
}

// True: something accepts connections there.
bool Accepts(const std::string& endpoint) {
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const size_t colon = endpoint.rfind(':');
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(colon + 1))));
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

bool Eventually(const std::function<bool()>& predicate) {
  const SteadyClock clock;
  const absl::Time deadline = clock.Now() + kPatience;
  while (!predicate()) {
    if (clock.Now() >= deadline) return false;
    poll(nullptr, 0, kPollMillis);
  }
  return true;
}

absl::StatusOr<master::EtcdAnswer> Ask(master::Etcd& etcd, master::EtcdRequest request,
                                       absl::Duration timeout) {
  absl::Notification answered;
  absl::StatusOr<master::EtcdAnswer> result;
  etcd.Call(std::move(request), timeout, [&](absl::StatusOr<master::EtcdAnswer> answer) {
    result = std::move(answer);
    answered.Notify();
  });
  if (!answered.WaitForNotificationWithTimeout(timeout + kPatience)) {
    ADD_FAILURE() << "a call that does not end";
    std::abort();  // it would write into this frame
  }
  return result;
}

std::string EtcdProcess::WhyNot() {
  const std::string program = MOONPOOL_ETCD_PROGRAM;
  if (program.empty() || !std::filesystem::exists(program)) {
    return "etcd is not installed (package etcd-server); what needs a real one is not tested";
  }
  return "";
}

std::unique_ptr<EtcdProcess> EtcdProcess::Start(EtcdProcessOptions options) {
  std::unique_ptr<EtcdProcess> etcd(new EtcdProcess(std::move(options)));
  absl::Status status;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    etcd->endpoint_ = absl::StrCat("127.0.0.1:", FreePort());
    status = etcd->Launch();
    if (status.ok()) return etcd;
  }
  ADD_FAILURE() << "etcd does not start: " << Describe(status);
  return nullptr;
}

absl::Status EtcdProcess::Launch() {
  const std::string url = absl::StrCat(options_.cert.empty() ? "http://" : "https://", endpoint_);
  // A cluster of one never calls a peer: any address will do.
  const std::string peer = "http://127.0.0.1:1";
  std::vector<std::string> args = {absl::StrCat("--data-dir=", dir_.path(), "/data"),
                                   absl::StrCat("--listen-client-urls=", url),
                                   absl::StrCat("--advertise-client-urls=", url),
                                   "--listen-peer-urls=http://127.0.0.1:0",
                                   absl::StrCat("--initial-advertise-peer-urls=", peer),
                                   absl::StrCat("--initial-cluster=default=", peer),
                                   "--unsafe-no-fsync",
                                   "--bcrypt-cost=4",
                                   "--logger=zap",
                                   "--log-outputs=stderr"};
  if (!options_.cert.empty()) {
    args.push_back(absl::StrCat("--cert-file=", options_.cert));
    args.push_back(absl::StrCat("--key-file=", options_.key));
  }
  if (!options_.ca.empty()) {
    args.push_back("--client-cert-auth");
    args.push_back(absl::StrCat("--trusted-ca-file=", options_.ca));
  }
  ASSIGN_OR_RETURN(process_, dev::ChildProcess::Start({.name = "etcd",
                                                       .program = MOONPOOL_ETCD_PROGRAM,
                                                       .args = std::move(args),
                                                       .log_path = dir_.path() + "/log",
                                                       .output_path = dir_.path() + "/out"}));
  const bool is_up = Eventually([this] { return !process_->running() || Accepts(endpoint_); });
  if (is_up && process_->running()) return absl::OkStatus();
  return absl::UnavailableError(process_->running() ? dev::TailOfFile(dir_.path() + "/log", 20)
                                                    : process_->DescribeEnd());
}

void EtcdProcess::Kill() {
  process_->Signal(SIGKILL);
  EXPECT_TRUE(process_->WaitForExit(kPatience));
}

bool EtcdProcess::Restart() {
  absl::Status status;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    status = Launch();
    if (status.ok()) return true;
  }
  ADD_FAILURE() << "etcd does not start again: " << Describe(status);
  return false;
}

void EtcdProcess::TurnAuthenticationOn(const std::string& user, const std::string& password,
                                       const std::string& prefix) {
  const auto stub =
      pb::Auth::NewStub(grpc::CreateChannel(endpoint_, grpc::InsecureChannelCredentials()));
  const auto call = [&stub](auto method, const auto& request, auto response) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kPatience));
    const grpc::Status status = (*stub.*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  const auto add_user = [&](const std::string& name, const std::string& secret,
                            const std::string& role) {
    pb::AuthUserAddRequest add;
    add.set_name(name);
    add.set_password(secret);
    call(&pb::Auth::Stub::UserAdd, add, pb::AuthUserAddResponse());
    pb::AuthRoleAddRequest add_role;
    add_role.set_name(role);
    call(&pb::Auth::Stub::RoleAdd, add_role, pb::AuthRoleAddResponse());
    pb::AuthUserGrantRoleRequest grant;
    grant.set_user(name);
    grant.set_role(role);
    call(&pb::Auth::Stub::UserGrantRole, grant, pb::AuthUserGrantRoleResponse());
  };
  add_user("root", "root-password", "root");
  add_user(user, password, "masters");
  pb::AuthRoleGrantPermissionRequest permit;
  permit.set_name("masters");
  permit.mutable_perm()->set_permtype(pb::Permission::READWRITE);
  permit.mutable_perm()->set_key(prefix);
  permit.mutable_perm()->set_range_end(master::EtcdPrefixEnd(prefix));
  call(&pb::Auth::Stub::RoleGrantPermission, permit, pb::AuthRoleGrantPermissionResponse());
  call(&pb::Auth::Stub::AuthEnable, pb::AuthEnableRequest(), pb::AuthEnableResponse());
}

std::unique_ptr<master::EtcdClient> EtcdTest::Connect(master::EtcdOptions options) {
  auto client = master::EtcdClient::Create(std::move(options), clock_, log_.logger());
  if (!client.ok()) {
    ADD_FAILURE() << Describe(client.status());
    return nullptr;
  }
  return *std::move(client);
}

}  // namespace moonpool::etcd_tests
