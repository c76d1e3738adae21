// A master over real gRPC that keeps durable state.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "master/meta/records.h"
#include "master/meta/testing/memory_meta_store.h"
#include "master/service/server.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

bool Eventually(const std::function<bool()>& is_true) {
  const absl::Time give_up = absl::Now() + kPatience;
  while (!is_true()) {
    if (absl::Now() >= give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

class SavingServer : public testing::Test {
 protected:
  SavingServer()
      : server({.listen = "127.0.0.1:0"}, {}, Mastership::kAlone, {clock, registry, log.logger()}) {
    auto owned = std::make_unique<MemoryMetaStore>(disk);
    store = owned.get();
    server.ServeAlone(std::make_unique<Core>(CoreOptions{}, Term{7}, Random(1), DurableState{}),
                      std::move(owned));
    EXPECT_THAT(server.Start(), IsOk());
    stub = v1::MasterService::NewStub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  }

  MemoryDisk disk;
  MemoryMetaStore* store = nullptr;  // the server's
  TestLogger log;
  SteadyClock clock;
  metrics::Registry registry;
  MasterServer server;
  std::unique_ptr<v1::MasterService::Stub> stub;
};

// An OpenNamespace that is under way while the test does something else.
class Opening {
 public:
  explicit Opening(v1::MasterService::Stub& stub) {
    request_.mutable_header()->mutable_version()->set_major(kWireMajor);
    request_.mutable_header()->set_namespace_("models");
    request_.set_fingerprint("f1");
    stub.async()->OpenNamespace(&context_, &request_, &response_, [this](grpc::Status status) {
      status_ = FromGrpc(status);
      done_.Notify();
    });
  }
  ~Opening() {
    context_.TryCancel();
    done_.WaitForNotification();
  }
  bool is_done() const { return done_.HasBeenNotified(); }
  absl::Status Wait() {
    if (!done_.WaitForNotificationWithTimeout(kPatience)) return absl::UnknownError("still waits");
    return status_;
  }

 private:
  grpc::ClientContext context_;
  v1::OpenNamespaceRequest request_;
  v1::OpenNamespaceResponse response_;
  absl::Notification done_;
  absl::Status status_;
};

TEST_F(SavingServer, ANamespaceIsAnsweredOnceItIsDurable) {
  store->Hold();
  Opening opening(*stub);
  ASSERT_TRUE(Eventually([&] { return store->held() == 1; }));
  EXPECT_FALSE(opening.is_done());
  store->Release();
  EXPECT_THAT(opening.Wait(), IsOk());
  server.Stop();
  EXPECT_EQ(disk.count(EncodeChange(DurableNamespace{"models", "f1"}).key), 1u);
}

TEST_F(SavingServer, AStoreThatFailsIsSaidToTheCallerAndInTheLog) {
  store->FailWrites(absl::ResourceExhaustedError("no space left"));
  EXPECT_THAT(Opening(*stub).Wait(),
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kNotSaved));
  EXPECT_THAT(log.lines(), Contains(HasSubstr("error durable state cannot be written")));
  store->FailWrites(absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return Opening(*stub).Wait().ok(); })) << "it is tried again";
  EXPECT_THAT(log.lines(), Contains(HasSubstr("info durable state is written again")));
}

TEST_F(SavingServer, StopWaitsForTheWriteUnderWay) {
  store->Hold();
  Opening opening(*stub);
  ASSERT_TRUE(Eventually([&] { return store->held() == 1; }));
  std::thread stopping([&] { server.Stop(); });
  EXPECT_THAT(opening.Wait(), Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  store->FinishOne();
  stopping.join();
  EXPECT_EQ(store->held(), 0u) << "and no other was begun";
}

TEST_F(SavingServer, AStoreThatAnotherMasterHasTakenOverEndsTheHealth) {
  EXPECT_TRUE(server.health().is_healthy);
  store->FailWrites(
      MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "not yours"));
  EXPECT_THAT(Opening(*stub).Wait(),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_FALSE(server.health().is_healthy);
  EXPECT_THAT(server.health().text, HasSubstr("restart"));
}

}  // namespace
}  // namespace moonpool::master
