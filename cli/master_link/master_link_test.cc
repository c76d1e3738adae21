#include "cli/master_link/master_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "moonpool/v1/admin.grpc.pb.h"

namespace moonpool::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kNowhere[] = "127.0.0.1:1";

grpc::Status NotLeader(const std::string& leader) {
  return ToGrpc(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                          "this master does not lead", {.leader = leader}));
}

// Answers GetStatus as told.
class Server final : public v1::AdminService::Service {
 public:
  using Answer = std::function<grpc::Status(grpc::ServerContext*)>;
  explicit Server(Answer answer) : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~Server() override { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& address() const { return address_; }
  int calls() const { return calls_; }

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest*,
                         v1::GetStatusResponse*) override {
    ++calls_;
    return answer_(context);
  }

 private:
  const Answer answer_;
  std::atomic<int> calls_{0};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

grpc::Status Lead(grpc::ServerContext*) { return grpc::Status::OK; }

TEST(MasterLink, FollowsToALeaderThatIsOnNoListAndStaysThere) {
  Server leader(Lead);
  Server standby([&](grpc::ServerContext*) { return NotLeader(leader.address()); });
  MasterLink link({kNowhere, standby.address()}, absl::Seconds(30));
  EXPECT_THAT(link.GetStatus(), IsOk());
  EXPECT_THAT(link.GetStatus(), IsOk());
  EXPECT_EQ(standby.calls(), 1);
  EXPECT_EQ(leader.calls(), 2);
}

TEST(MasterLink, WaitsForAnElection) {
  std::atomic<int> refusals{0};
  Server other([&](grpc::ServerContext*) { return NotLeader(""); });
  Server next([&](grpc::ServerContext*) {
    return ++refusals <= 4 ? NotLeader(other.address()) : grpc::Status::OK;
  });
  MasterLink link({other.address(), next.address()}, absl::Seconds(30));
  EXPECT_THAT(link.GetStatus(), IsOk());
  EXPECT_EQ(next.calls(), 5);
}

TEST(MasterLink, SaysAtTheTimeoutThatNobodyLeads) {
  Server standby([](grpc::ServerContext*) { return NotLeader("127.0.0.1:1"); });
  MasterLink link({standby.address()}, absl::Seconds(1));
  const absl::Status status = link.GetStatus().status();
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("no master leads: ", standby.address(), " (follows)")));
}

TEST(MasterLink, SaysSoAlsoWhenTimeEndsBeforeTheNextAnswer) {
  std::atomic<int> calls = 0;
  Server standby([&calls](grpc::ServerContext* context) {
    if (calls++ == 0) return NotLeader("127.0.0.1:1");
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  });
  MasterLink link({standby.address()}, absl::Seconds(1));
  EXPECT_THAT(link.GetStatus().status(),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
}

TEST(MasterLink, AMasterThatSaysNothingIsPassedOver) {
  Server silent([](grpc::ServerContext* context) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  });
  Server leader(Lead);
  MasterLink link({silent.address(), leader.address()}, absl::Seconds(60));
  EXPECT_THAT(link.GetStatus(), IsOk());
  EXPECT_THAT(link.GetStatus(), IsOk());
  EXPECT_EQ(silent.calls(), 1);
}

TEST(MasterLink, AMasterThatShutsDownIsPassedOver) {
  Server leaving([](grpc::ServerContext*) { return grpc::Status::CANCELLED; });  // gRPC's words
  Server leader(Lead);
  MasterLink link({leaving.address(), leader.address()}, absl::Seconds(60));
  EXPECT_THAT(link.GetStatus(), IsOk());
}

TEST(MasterLink, WhereNobodyIsThereIsSaidAtOnce) {
  MasterLink link({kNowhere, "127.0.0.1:2"}, absl::Minutes(10));
  const absl::Status status = link.GetStatus().status();
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no master answers at 127.0.0.1:1"));
  EXPECT_THAT(DetailOf(status)->hint, HasSubstr("moonpool dev"));
}

TEST(MasterLink, OtherErrorsAreTheLeaders) {
  Server leader([](grpc::ServerContext*) {
    return ToGrpc(
        MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, "no such thing"));
  });
  Server other(Lead);
  MasterLink link({leader.address(), other.address()}, absl::Seconds(30));
  EXPECT_THAT(link.GetStatus(),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_EQ(other.calls(), 0);
}

TEST(MasterLink, ThatNothingCanBeSavedNowIsSaidAsTheLeaderSaysIt) {
  Server leader([](grpc::ServerContext*) {
    return ToGrpc(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNotSaved, "no etcd",
                            {.hint = "look at etcd"}));
  });
  Server standby([&](grpc::ServerContext*) { return NotLeader(leader.address()); });
  MasterLink link({standby.address(), leader.address()}, absl::Seconds(30));
  const absl::Status status = link.GetStatus().status();
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotSaved));
  EXPECT_EQ(DetailOf(status)->hint, "look at etcd");
}

TEST(MasterLink, ALoneMasterThatSaysNothingEndsAtTheTimeout) {
  Server silent([](grpc::ServerContext* context) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  });
  MasterLink link({silent.address()}, absl::Milliseconds(200));
  EXPECT_THAT(link.GetStatus(), Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

}  // namespace
}  // namespace moonpool::cli
