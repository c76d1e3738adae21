// A pool in this process, for tests of clients as users link them: real gRPC, TCP and shared
// memory, in front of a fake master and memory of the test's.
//
//   SteadyClock clock;
//   LocalNode node(clock);
//   LocalMaster master(node);
//   Client::Connect({.masters = {master.address()}})
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client_sdk/core/testing/fake_master.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/host_id.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "common/testing/test_logger.h"
#include "moonpool/v1/master.grpc.pb.h"
#include "transport/shm/shm_server.h"
#include "transport/tcp/tcp_server.h"
#include "transport/testing/fake_target.h"

namespace moonpool {

// One node in this process, over TCP and shared memory.
class LocalNode {
 public:
  // With a folder the pool is a file there.
  explicit LocalNode(const Clock& clock, const std::string& folder = "")
      : target_(Incarnation{0x1234}, {64u << 20}, folder),
        tcp_(transport::NewTcpServer(target_, {}, clock, log_.logger())),
        shm_(transport::NewShmServer(
            target_, {{SegmentId{0}, target_.segment_fd(0), target_.segment_bytes(0)}},
            {.socket_path = dir_.path() + "/shm"}, clock, log_.logger())) {
    EXPECT_THAT(tcp_->Start(), IsOk());
    EXPECT_THAT(shm_->Start(), IsOk());
  }
  ~LocalNode() {
    StopShm();
    tcp_->Stop();
  }
  void StopShm() { shm_->Stop(); }
  transport::FakeTarget& target() { return target_; }
  void FillAddress(v1::NodeAddress* address) const {
    address->set_name("n1");
    address->set_incarnation(target_.incarnation().value);
    address->set_host_id(LocalHostId());
    address->set_tcp_address(tcp_->address());
    address->set_shm_path(shm_->address());
  }

 private:
  const TempDir dir_;
  TestLogger log_;
  transport::FakeTarget target_;
  std::unique_ptr<transport::Server> tcp_, shm_;
};

// The fake master behind gRPC, telling clients the real addresses of the node.
class LocalMaster final : public v1::MasterService::Service {
 public:
  explicit LocalMaster(const LocalNode& node) : node_(node) {
    places_.Add("n1", "host");
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~LocalMaster() override { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& address() const { return address_; }
  client::FakeMaster& fake() { return fake_; }

  grpc::Status OpenNamespace(grpc::ServerContext*, const v1::OpenNamespaceRequest* request,
                             v1::OpenNamespaceResponse* response) override {
    if (request->header().namespace_() == "unknown") {
      return ToGrpc(MakeError(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown, "no"));
    }
    return Answer(fake_.OpenNamespace(*request, {}), response);
  }
  grpc::Status StartPuts(grpc::ServerContext*, const v1::StartPutsRequest* request,
                         v1::StartPutsResponse* response) override {
    return WithNode(Answer(fake_.Reply(*request, {}), response), response);
  }
  grpc::Status CommitPuts(grpc::ServerContext*, const v1::CommitPutsRequest* request,
                          v1::CommitPutsResponse* response) override {
    return Answer(fake_.Reply(*request, {}), response);
  }
  grpc::Status Locate(grpc::ServerContext*, const v1::LocateRequest* request,
                      v1::LocateResponse* response) override {
    return WithNode(Answer(fake_.Reply(*request, {}), response), response);
  }
  grpc::Status MatchPrefix(grpc::ServerContext*, const v1::MatchPrefixRequest* request,
                           v1::MatchPrefixResponse* response) override {
    return WithNode(Answer(fake_.Reply(*request, {}), response), response);
  }
  grpc::Status Exists(grpc::ServerContext*, const v1::ExistsRequest* request,
                      v1::ExistsResponse* response) override {
    return Answer(fake_.Exists(*request, {}), response);
  }
  grpc::Status ListObjects(grpc::ServerContext*, const v1::ListObjectsRequest* request,
                           v1::ListObjectsResponse* response) override {
    return Answer(fake_.ListObjects(*request, {}), response);
  }
  grpc::Status Remove(grpc::ServerContext*, const v1::RemoveRequest* request,
                      v1::RemoveResponse* response) override {
    return Answer(fake_.Remove(*request, {}), response);
  }

 private:
  template <typename Response>
  grpc::Status Answer(absl::StatusOr<Response> result, Response* response) {
    if (!result.ok()) return ToGrpc(result.status());
    *response = *std::move(result);
    return grpc::Status::OK;
  }
  template <typename Response>
  grpc::Status WithNode(grpc::Status status, Response* response) {
    for (v1::NodeAddress& node : *response->mutable_nodes()) node_.FillAddress(&node);
    return status;
  }

  const LocalNode& node_;
  client::FakeNodes places_;
  FakeClock clock_;
  client::FakeMaster fake_{places_, clock_};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace moonpool
