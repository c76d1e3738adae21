#include "tests/etcd/etcd_process.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"
#include "etcd/rpc.grpc.pb.h"
#include "tests/harness/etcd_server.h"

namespace moonpool::etcd_tests {
namespace {

namespace pb = etcdserverpb;

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

}  // namespace

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

std::string EtcdProcess::WhyNot() { return harness::WhyNoEtcd(); }

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
  ASSIGN_OR_RETURN(process_, harness::StartEtcd({.folder = dir_.path(),
                                                 .endpoint = endpoint_,
                                                 .cert = options_.cert,
                                                 .key = options_.key,
                                                 .ca = options_.ca}));
  return absl::OkStatus();
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
