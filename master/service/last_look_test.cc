// R10, between the moment a request is taken and that of its answer: time passes wherever the
// master looks at the clock.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "master/service/client_service.h"
#include "master/service/shared_handlers.h"

namespace moonpool::master {
namespace {

// Stands still for some looks at it; then an hour has passed.
class JumpingClock final : public Clock {
 public:
  absl::Time Now() const override {
    return looks_left_.fetch_sub(1) > 0 ? start_ : start_ + absl::Hours(1);
  }
  void JumpAfter(int looks) { looks_left_ = looks; }
  absl::Time start() const { return start_; }

 private:
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  mutable std::atomic<int> looks_left_ = 0;
};

class LastLookTest : public testing::Test {
 protected:
  LastLookTest() : service_(ServiceContext{handlers_, clock_}, arenas_, registry_) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.service());
    queues_ = std::make_unique<CallQueues>(builder, 1);
    server_ = builder.BuildAndStart();
    queues_->Start([this](CallQueues::Queue& queue) { service_.Serve(queue); });
    stub_ = v1::MasterService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~LastLookTest() override {
    server_->Shutdown();
    server_->Wait();
    queues_->Stop();
  }

  // Each reign has a core that knows of nothing.
  void Lead(Reign reign) {
    clock_.JumpAfter(1000);
    handlers_.leadership().Begin(reign, clock_.start() + absl::Minutes(1));
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      reigns.OnElection({.kind = ElectionEvent::Kind::kLeader, .reign = reign}, now);
      reigns.Begin(reign, nullptr, std::make_unique<Core>(CoreOptions{}, Term{7}, Random(1)), now);
    });
  }
  absl::Status Open() {
    v1::OpenNamespaceRequest request;
    request.mutable_header()->mutable_version()->set_major(kWireMajor);
    request.mutable_header()->set_namespace_("models");
    request.set_fingerprint("f1");
    v1::OpenNamespaceResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return FromGrpc(stub_->OpenNamespace(&context, request, &response));
  }
  bool IsOpened() {
    bool is_opened = false;
    handlers_.Run([&](Reigns& reigns, absl::Time) {
      for (const auto& known : reigns.present()->core->GetStatus(clock_.start()).namespaces) {
        is_opened |= known.name == "models";
      }
    });
    return is_opened;
  }

  JumpingClock clock_;
  TestLogger log_;
  metrics::Registry registry_;
  ServiceMetrics metrics_{registry_};
  MetaWriter writer_{clock_, log_.logger(), registry_};
  SharedHandlers handlers_{Mastership::kElected, HandlersOptions{}, clock_, metrics_, writer_};
  ArenaPool arenas_;
  ClientService service_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::MasterService::Stub> stub_;
};

TEST_F(LastLookTest, WhatWasDoneInTimeAndIsAnsweredLateIsNotSaid) {
  const auto is_not_leader = Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader);
  bool was_done_in_vain = false;
  absl::Status last;
  for (int looks = 0; looks < 12; ++looks) {
    Lead(Reign{looks + 5});
    clock_.JumpAfter(looks);
    last = Open();
    if (!last.ok()) {
      EXPECT_THAT(last, is_not_leader) << looks;
      was_done_in_vain |= IsOpened();
    }
  }
  EXPECT_TRUE(was_done_in_vain) << "no lease has ended between the deed and the answer";
  EXPECT_THAT(last, IsOk()) << "the lease held to the end";
}

}  // namespace
}  // namespace moonpool::master
