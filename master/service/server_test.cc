// A master over real gRPC on loopback, with scripted nodes and clients.
#include "master/service/server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/status_proto.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"
#include "moonpool/v1/membership.grpc.pb.h"

namespace moonpool::master {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr absl::Duration kPatience = absl::Seconds(30);

void FillVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

// A node on its stream, written and read by the test's own thread.
class FakeNode {
 public:
  FakeNode(const std::string& address, std::string name)
      : name_(std::move(name)),
        stub_(v1::MembershipService::NewStub(
            grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), Arguments()))) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_->Session(&context_);
  }
  ~FakeNode() {
    context_.TryCancel();
    Finish().IgnoreError();
  }

  bool Register(uint64_t capacity_bytes) {
    v1::NodeMessage message;
    v1::Register* out = message.mutable_register_();
    FillVersion(out->mutable_version());
    out->set_name(name_);
    out->set_incarnation(1);
    out->set_tcp_address("127.0.0.1:1");
    v1::Segment* segment = out->add_segments();
    segment->set_medium("dram");
    segment->set_capacity_bytes(capacity_bytes);
    stream_->Write(message);
    v1::MasterMessage answer;
    return stream_->Read(&answer) && answer.has_registered();
  }
  void CompleteInventory() {
    v1::NodeMessage message;
    message.mutable_inventory()->set_complete(true);
    stream_->Write(message);
  }
  bool Read(v1::MasterMessage* message) { return stream_->Read(message); }
  void Write(const v1::NodeMessage& message) { stream_->Write(message); }
  void Confirm(uint64_t command_id) {
    v1::NodeMessage message;
    message.mutable_command_result()->set_command_id(command_id);
    stream_->Write(message);
  }
  // A small window, so that a node that does not read stops the master's writes soon.
  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return arguments;
  }
  absl::Status Finish() {
    if (stream_ == nullptr) return absl::OkStatus();
    v1::MasterMessage message;
    while (stream_->Read(&message)) {
    }
    const absl::Status status = FromGrpc(stream_->Finish());
    stream_ = nullptr;
    return status;
  }

 private:
  const std::string name_;
  const std::unique_ptr<v1::MembershipService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::NodeMessage, v1::MasterMessage>> stream_;
};

class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(HandlersOptions options = {.session_timeout = absl::Minutes(1)})
      : server(ServerOptions{.listen = "127.0.0.1:0"}, options, Mastership::kAlone,
               {clock, registry, log.logger()}) {
    server.ServeAlone(std::make_unique<Core>(CoreOptions{}, Term{7}, Random(1)));
    EXPECT_THAT(server.Start(), IsOk());
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(64 << 20);
    const auto channel =
        grpc::CreateCustomChannel(server.address(), grpc::InsecureChannelCredentials(), arguments);
    stub = v1::MasterService::NewStub(channel);
    admin = v1::AdminService::NewStub(channel);
  }

  template <typename Request>
  Request NewRequest(absl::Duration timeout = absl::Seconds(20)) {
    Request request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_client_id(1);
    request.mutable_header()->set_timeout_ms(
        static_cast<uint64_t>(absl::ToInt64Milliseconds(timeout)));
    return request;
  }
  v1::StartPutsRequest PutRequest(const std::vector<std::string>& keys, uint64_t size_bytes) {
    auto request = NewRequest<v1::StartPutsRequest>();
    request.set_request_id(++last_request_id);
    for (const std::string& key : keys) {
      v1::PutKey* put = request.add_puts();
      put->set_key(key);
      put->set_size_bytes(size_bytes);
    }
    return request;
  }
  // Asks again until the node takes grants: its inventory travels on another stream.
  v1::StartPutsResponse Grant(const std::vector<std::string>& keys, uint64_t size_bytes) {
    v1::StartPutsResponse response;
    v1::StartPutsRequest request = PutRequest(keys, size_bytes);
    request.set_wait_for_space(true);
    grpc::ClientContext context;
    EXPECT_THAT(FromGrpc(stub->StartPuts(&context, request, &response)), IsOk());
    for (const v1::PutResult& result : response.results()) {
      EXPECT_TRUE(result.has_grant()) << result.ShortDebugString();
    }
    return response;
  }
  void Commit(const v1::StartPutsResponse& grants) {
    auto request = NewRequest<v1::CommitPutsRequest>();
    for (const v1::PutResult& result : grants.results()) {
      v1::CommitPut* put = request.add_puts();
      put->set_generation(result.grant().generation());
      put->set_handle(result.grant().handle());
    }
    v1::CommitPutsResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(FromGrpc(stub->CommitPuts(&context, request, &response)), IsOk());
    for (const v1::Status& status : response.results()) EXPECT_EQ(status.code(), 0);
  }
  absl::Status Abort(const v1::StartPutsResponse& grants) {
    auto request = NewRequest<v1::AbortPutsRequest>();
    for (const v1::PutResult& result : grants.results()) {
      v1::AbortPut* put = request.add_puts();
      put->set_generation(result.grant().generation());
      put->set_handle(result.grant().handle());
    }
    v1::AbortPutsResponse response;
    grpc::ClientContext context;
    return FromGrpc(stub->AbortPuts(&context, request, &response));
  }
  absl::StatusOr<v1::LocateResponse> Locate(const std::vector<std::string>& keys) {
    auto request = NewRequest<v1::LocateRequest>();
    for (const std::string& key : keys) request.add_keys(key);
    v1::LocateResponse response;
    grpc::ClientContext context;
    const absl::Status status = FromGrpc(stub->Locate(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  // Looks at the metrics until they say so.
  bool Eventually(absl::string_view line) {
    const absl::Time give_up = absl::Now() + kPatience;
    while (absl::Now() < give_up) {
      if (absl::StrContains(registry.Text(), absl::StrCat("\n", line, "\n"))) return true;
      std::this_thread::yield();
    }
    return false;
  }

  // Waits for the first answer of this kind.
  bool EventuallyAnswered(const std::string& rpc, const std::string& code) {
    const metrics::Counter& counter =
        registry.AddCounter("moonpool_master_requests_total", "Calls that were answered.",
                            {{"rpc", rpc}, {"code", code}});
    const absl::Time give_up = absl::Now() + kPatience;
    while (absl::Now() < give_up) {
      if (counter.value() > 0) return true;
      std::this_thread::yield();
    }
    return false;
  }

  TestLogger log;
  SteadyClock clock;
  metrics::Registry registry;
  MasterServer server;
  std::unique_ptr<v1::MasterService::Stub> stub;
  std::unique_ptr<v1::AdminService::Stub> admin;
  uint64_t last_request_id = 0;
};

// A put that is under way while the test does something else.
class WaitingCall {
 public:
  WaitingCall(v1::MasterService::Stub& stub, v1::StartPutsRequest request)
      : request_(std::move(request)) {
    request_.set_wait_for_space(true);
    stub.async()->StartPuts(&context_, &request_, &response_, [this](grpc::Status status) {
      status_ = FromGrpc(status);
      done_.Notify();
    });
  }
  ~WaitingCall() {
    context_.TryCancel();
    done_.WaitForNotification();
  }
  bool is_done() const { return done_.HasBeenNotified(); }
  void Cancel() { context_.TryCancel(); }
  absl::Status Wait() {
    if (!done_.WaitForNotificationWithTimeout(kPatience)) return absl::UnknownError("still waits");
    return status_;
  }
  const v1::StartPutsResponse& response() const { return response_; }

 private:
  grpc::ClientContext context_;
  v1::StartPutsRequest request_;
  v1::StartPutsResponse response_;
  absl::Status status_;
  absl::Notification done_;
};

TEST_F(ServerTest, PutsAndLocatesOverTheWire) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(64 * kMiB));
  node.CompleteInventory();
  Commit(Grant({"a", "b"}, 1000));
  ASSERT_OK_AND_ASSIGN(const v1::LocateResponse located, Locate({"a", "b", "c"}));
  EXPECT_EQ(located.results(0).location().size_bytes(), 1000u);
  EXPECT_EQ(ReasonOf(StatusFromProto(located.results(2).status())), ErrorReason::kNeverStored);
  EXPECT_EQ(located.nodes(0).name(), "n1");

  v1::GetStatusRequest request;
  FillVersion(request.mutable_version());
  v1::GetStatusResponse status;
  grpc::ClientContext context;
  ASSERT_THAT(FromGrpc(admin->GetStatus(&context, request, &status)), IsOk());
  EXPECT_EQ(status.objects(), 2u);
  EXPECT_EQ(status.nodes_up(), 1u);
  EXPECT_TRUE(Eventually("moonpool_master_keys_hit_total 2"));
  EXPECT_TRUE(Eventually("moonpool_master_keys_missed_total{reason=\"never_stored\"} 1"));
  EXPECT_TRUE(EventuallyAnswered("Locate", "OK"));
  EXPECT_TRUE(Eventually("moonpool_master_nodes_up 1"));
}

TEST_F(ServerTest, NamesTheNodesThatTakePart) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(kMiB));
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> names, server.ServingNodes());
  EXPECT_TRUE(names.empty()) << "what it holds is not known yet";
  node.CompleteInventory();
  Grant({"k"}, 1);
  ASSERT_OK_AND_ASSIGN(names, server.ServingNodes());
  EXPECT_EQ(names, std::vector<std::string>{"n1"});
}

TEST_F(ServerTest, LabelsThatAreKnownAreThereBeforeAnythingIsCounted) {
  const std::string text = registry.Text();
  for (const char* series :
       {"keys_missed_total{reason=\"evicted\"}", "keys_missed_total{reason=\"node_lost\"}",
        "puts_refused_total{reason=\"no_space\"}", "puts_refused_total{reason=\"already_exists\"}",
        "requests_total{rpc=\"StartPuts\",code=\"OK\"}"}) {
    EXPECT_THAT(text, testing::HasSubstr(absl::StrCat("\nmoonpool_master_", series, " 0\n")));
  }
}

TEST_F(ServerTest, ErrorsCarryTheirReasonOverTheWire) {
  v1::LocateRequest request;
  v1::LocateResponse response;
  grpc::ClientContext context;
  EXPECT_THAT(FromGrpc(stub->Locate(&context, request, &response)),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
}

TEST_F(ServerTest, AWaitingPutIsReleasedByAnAbort) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(kMiB));
  node.CompleteInventory();
  const v1::StartPutsResponse held = Grant({"held"}, kMiB - 64);
  WaitingCall waiting(*stub, PutRequest({"x"}, kMiB - 64));
  ASSERT_TRUE(Eventually("moonpool_master_waiters 1"));
  EXPECT_FALSE(waiting.is_done());
  ASSERT_THAT(Abort(held), IsOk());
  ASSERT_THAT(waiting.Wait(), IsOk());
  EXPECT_TRUE(waiting.response().results(0).has_grant());
}

TEST_F(ServerTest, ACancelledPutLeavesTheQueueAndGivesBackItsGrants) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(2 * kMiB));
  node.CompleteInventory();
  const v1::StartPutsResponse held = Grant({"held"}, kMiB - 64);
  WaitingCall waiting(*stub, PutRequest({"x", "y"}, kMiB - 64));  // room for one
  ASSERT_TRUE(Eventually("moonpool_master_waiters 1"));
  waiting.Cancel();
  EXPECT_THAT(waiting.Wait(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(Eventually("moonpool_master_waits_cancelled_total 1"));
  Grant({"z"}, kMiB - 64);
}

TEST_F(ServerTest, RemoveIsConfirmedByTheNode) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(64 * kMiB));
  node.CompleteInventory();
  Commit(Grant({"a"}, 1000));
  std::thread confirms([&node] {
    v1::MasterMessage message;
    while (node.Read(&message)) {
      if (!message.has_command()) continue;
      node.Confirm(message.command().command_id());
      return;
    }
  });
  auto request = NewRequest<v1::RemoveRequest>();
  request.add_keys("a");
  v1::RemoveResponse response;
  grpc::ClientContext context;
  EXPECT_THAT(FromGrpc(stub->Remove(&context, request, &response)), IsOk());
  EXPECT_EQ(response.results(0).code(), 0);
  confirms.join();
  EXPECT_THAT(Locate({"a"}), IsOk());
}

TEST_F(ServerTest, StopAnswersWaitersAndEndsStreams) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(kMiB));
  node.CompleteInventory();
  Grant({"held"}, kMiB - 64);
  WaitingCall first(*stub, PutRequest({"x"}, kMiB - 64));
  WaitingCall second(*stub, PutRequest({"y"}, kMiB - 64));
  ASSERT_TRUE(Eventually("moonpool_master_waiters 2"));
  EXPECT_TRUE(server.health().is_healthy);
  const absl::Time started = absl::Now();
  server.Stop();
  EXPECT_LT(absl::Now() - started, absl::Seconds(10));
  EXPECT_FALSE(server.health().is_healthy);
  EXPECT_THAT(first.Wait(), Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_THAT(second.Wait(), Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_THAT(node.Finish(), Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_THAT(Locate({"a"}), StatusIs(absl::StatusCode::kUnavailable));
  server.Stop();  // idempotent
}

TEST_F(ServerTest, ANewerStreamOfTheSameNodeEndsTheOlder) {
  FakeNode old_one(server.address(), "n1");
  ASSERT_TRUE(old_one.Register(kMiB));
  FakeNode new_one(server.address(), "n1");
  ASSERT_TRUE(new_one.Register(kMiB));
  EXPECT_THAT(old_one.Finish(), StatusIs(absl::StatusCode::kAborted));
  new_one.CompleteInventory();
  Commit(Grant({"a"}, 1000));
}

TEST_F(ServerTest, AStreamThatDoesNotBeginWithRegisterIsRefused) {
  FakeNode node(server.address(), "n1");
  v1::NodeMessage message;
  message.mutable_heartbeat();
  node.Write(message);
  v1::MasterMessage answer;
  ASSERT_TRUE(node.Read(&answer));
  EXPECT_TRUE(answer.has_refused());
  EXPECT_THAT(node.Finish(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ServerTest, ASecondServerOnTheSamePortSaysSo) {
  metrics::Registry other_registry;
  MasterServer other(ServerOptions{.listen = server.address()}, HandlersOptions{},
                     Mastership::kAlone, {clock, other_registry, log.logger()});
  const absl::Status status = other.Start();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(absl::StrContains(status.message(), server.address())) << status;
}

TEST_F(ServerTest, TheLargestBatchFitsAndMoreIsRefused) {
  auto request = NewRequest<v1::ExistsRequest>();
  for (size_t i = 0; i < kMaxBatchKeys; ++i) {
    std::string key = absl::StrCat(i, ".");
    key.resize(kMaxKeyBytes, 'k');
    request.add_keys(std::move(key));
  }
  v1::ExistsResponse response;
  grpc::ClientContext context;
  ASSERT_THAT(FromGrpc(stub->Exists(&context, request, &response)), IsOk());
  EXPECT_EQ(response.results_size(), static_cast<int>(kMaxBatchKeys));

  request.add_keys(std::string(size_t{64} << 20, 'k'));
  grpc::ClientContext another;
  EXPECT_THAT(FromGrpc(stub->Exists(&another, request, &response)),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

class ShortSessionTest : public ServerTest {
 protected:
  ShortSessionTest()
      : ServerTest({.heartbeat_interval = absl::Milliseconds(50),
                    .session_timeout = absl::Milliseconds(200)}) {}
};

TEST_F(ShortSessionTest, ASilentNodeIsEnded) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(kMiB));
  EXPECT_THAT(node.Finish(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(Eventually("moonpool_master_sessions_timed_out_total 1"));
  EXPECT_TRUE(Eventually("moonpool_master_nodes_up 0"));
}

// Its stream is full of commands that it does not read: the write under way would never end.
TEST_F(ServerTest, ANodeThatTakesNothingIsCutOff) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(1024 * kMiB));
  node.CompleteInventory();
  std::vector<std::string> keys;
  for (int i = 0; i < 16000; ++i) keys.push_back(absl::StrCat(i));
  Commit(Grant(keys, 1));
  auto request = NewRequest<v1::RemoveRequest>(absl::Milliseconds(1));
  for (const std::string& key : keys) request.add_keys(key);
  v1::RemoveResponse response;
  grpc::ClientContext context;
  ASSERT_THAT(FromGrpc(stub->Remove(&context, request, &response)), IsOk());
  FakeNode successor(server.address(), "n1");
  ASSERT_TRUE(successor.Register(1024 * kMiB));
  EXPECT_TRUE(EventuallyAnswered("Session", "ABORTED"));
}

// Calls, cancellations, short deadlines and sessions at once: for the sanitizers.
TEST_F(ServerTest, ManyAtOnce) {
  FakeNode node(server.address(), "n1");
  ASSERT_TRUE(node.Register(8 * kMiB));
  node.CompleteInventory();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        v1::StartPutsRequest request = NewRequest<v1::StartPutsRequest>();
        request.set_request_id(static_cast<uint64_t>(1000 + t * 1000 + i));
        request.mutable_header()->set_client_id(static_cast<uint64_t>(t + 1));
        request.set_wait_for_space(true);
        request.set_wait_for_writer(true);
        v1::PutKey* put = request.add_puts();
        put->set_key(absl::StrCat("k", i % 7));
        put->set_size_bytes(2 * kMiB);
        v1::StartPutsResponse response;
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::milliseconds(1 + i % 20));
        const grpc::Status status = stub->StartPuts(&context, request, &response);
        if (!status.ok() || !response.results(0).has_grant()) continue;
        if (i % 3 == 0) {
          Abort(response).IgnoreError();
        } else {
          auto commit = NewRequest<v1::CommitPutsRequest>();
          commit.add_puts()->set_generation(response.results(0).grant().generation());
          commit.mutable_puts(0)->set_handle(response.results(0).grant().handle());
          v1::CommitPutsResponse committed;
          grpc::ClientContext commit_context;
          stub->CommitPuts(&commit_context, commit, &committed);
        }
        EXPECT_THAT(Locate({"k1", "k2", "k3"}), IsOk());
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    FakeNode visitor(server.address(), "n2");
    EXPECT_TRUE(visitor.Register(kMiB));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually("moonpool_master_waiters 0"));
}

}  // namespace
}  // namespace moonpool::master
