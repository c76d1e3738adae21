#include "client_sdk/src/grpc_master_stub.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Answers Exists as told, on a port of its own.
class Server final : public v1::MasterService::Service {
 public:
  Server() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~Server() override { Stop(); }
  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& address() const { return address_; }

  grpc::Status Exists(grpc::ServerContext* context, const v1::ExistsRequest* request,
                      v1::ExistsResponse* response) override {
    for (int i = 0; i < request->keys_size(); ++i) response->add_results();
    return answer ? answer(context) : grpc::Status::OK;
  }

  grpc::Status StartPuts(grpc::ServerContext* context, const v1::StartPutsRequest*,
                         v1::StartPutsResponse*) override {
    return answer_start ? answer_start(context) : grpc::Status::OK;
  }

  grpc::Status Locate(grpc::ServerContext*, const v1::LocateRequest*,
                      v1::LocateResponse* response) override {
    answer_locate(response);
    return grpc::Status::OK;
  }

  std::function<grpc::Status(grpc::ServerContext*)> answer;
  std::function<void(v1::LocateResponse*)> answer_locate;
  std::function<grpc::Status(grpc::ServerContext*)> answer_start;

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

class GrpcMasterStubTest : public ::testing::Test {
 protected:
  CallContext Within(absl::Duration timeout) {
    return {.deadline = clock_.Now() + timeout, .cancel = {}};
  }
  absl::Status Exists(GrpcMasterStub& stub, const CallContext& context) {
    v1::ExistsRequest request;
    request.add_keys("k");
    return stub.Exists(request, context).status();
  }

  SteadyClock clock_;
  Server server_;
};

TEST_F(GrpcMasterStubTest, Answers) {
  GrpcMasterStub stub({server_.address()}, clock_, {});
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(10))), IsOk());
}

TEST_F(GrpcMasterStubTest, NobodyThereIsUnavailableWithTheAddressAtOnce) {
  GrpcMasterStub stub({"127.0.0.1:1"}, clock_, {});
  const absl::Time begun = clock_.Now();
  const absl::Status status = Exists(stub, Within(absl::Seconds(30)));
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(std::string(status.message()), StartsWith("no master answers at 127.0.0.1:1"));
  EXPECT_EQ(DetailOf(status)->hint, "is moonpool-master running there?");
  EXPECT_LT(clock_.Now() - begun, absl::Seconds(5));
}

TEST_F(GrpcMasterStubTest, AllThatWereTriedAreNamed) {
  GrpcMasterStub stub({"127.0.0.1:1", "127.0.0.1:2"}, clock_, {});
  const std::string message(Exists(stub, Within(absl::Seconds(30))).message());
  EXPECT_THAT(message, StartsWith("no master answers at 127.0.0.1:1"));
  EXPECT_THAT(message, HasSubstr(", 127.0.0.1:2"));
}

TEST_F(GrpcMasterStubTest, StaysWithTheFirstMasterThatAnswers) {
  Server other;
  int calls = 0;
  other.answer = [&](grpc::ServerContext*) {
    ++calls;
    return grpc::Status::OK;
  };
  GrpcMasterStub stub({"127.0.0.1:1", server_.address(), other.address()}, clock_, {});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Exists(stub, Within(absl::Seconds(10))), IsOk());
  EXPECT_EQ(calls, 0);
  server_.Stop();
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(10))), IsOk());
  EXPECT_EQ(calls, 1);
}

// As a stopped process does: the connection stands, and nothing comes back.
grpc::Status NeverAnswer(grpc::ServerContext* context) {
  while (!context->IsCancelled()) std::this_thread::yield();
  return grpc::Status::CANCELLED;
}

TEST_F(GrpcMasterStubTest, PassesOverAMasterThatGivesNoSignOfLife) {
  Server other;
  GrpcMasterStub stub({server_.address(), other.address()}, clock_,
                      {.silence_max = absl::Milliseconds(100)});
  ASSERT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  std::atomic<int> unanswered{0};
  server_.answer = [&](grpc::ServerContext* context) {
    ++unanswered;
    return NeverAnswer(context);
  };
  const absl::Time begun = clock_.Now();
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  EXPECT_LT(clock_.Now() - begun, absl::Seconds(10));
  // And the next calls do not ask it again.
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  EXPECT_LE(unanswered.load(), 2) << "one call, and the question whether it is there";
}

TEST_F(GrpcMasterStubTest, SaysWhichMasterGaveNoSignOfLife) {
  Server other;
  server_.answer = other.answer = NeverAnswer;
  GrpcMasterStub stub({server_.address(), other.address()}, clock_,
                      {.silence_max = absl::Milliseconds(100)});
  const absl::Status status = Exists(stub, Within(absl::Seconds(30)));
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("master ", other.address(), ": no sign of life")));
}

TEST_F(GrpcMasterStubTest, ALoneMasterIsGivenUpOnlyByThoseWhoDoNotWait) {
  server_.answer = NeverAnswer;
  GrpcMasterStub hurried({server_.address()}, clock_,
                         {.silence_max = absl::Milliseconds(100), .waits_for_lone_master = false});
  const absl::Status status = Exists(hurried, Within(absl::Seconds(30)));
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no sign of life within 200ms"));
  EXPECT_THAT(DetailOf(status)->hint, HasSubstr("stopped or overloaded"));
  GrpcMasterStub patient({server_.address()}, clock_, {.silence_max = absl::Milliseconds(10)});
  EXPECT_THAT(Exists(patient, Within(absl::Milliseconds(300))),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

// Waiting for space, say, may take longer than any sign of life.
TEST_F(GrpcMasterStubTest, ACallThatALivingMasterHoldsIsHeld) {
  Server other;
  std::atomic<int> asked{0}, started_elsewhere{0};
  server_.answer = [&](grpc::ServerContext*) {
    ++asked;
    return grpc::Status::OK;
  };
  server_.answer_start = [&](grpc::ServerContext* context) {
    while (asked.load() < 3 && !context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  };
  other.answer_start = [&](grpc::ServerContext*) {
    ++started_elsewhere;
    return grpc::Status::OK;
  };
  GrpcMasterStub stub({server_.address(), other.address()}, clock_,
                      {.silence_max = absl::Milliseconds(100)});
  EXPECT_THAT(stub.StartPuts(v1::StartPutsRequest(), Within(absl::Seconds(30))), IsOk());
  EXPECT_GE(asked.load(), 3);
  EXPECT_EQ(started_elsewhere.load(), 0);
}

// Whatever listens there, it is no master; another one may be.
TEST_F(GrpcMasterStubTest, AnAnswerThatCannotBeReadIsNone) {
  server_.answer_locate = [](v1::LocateResponse* response) {
    response->add_results()->mutable_location()->set_generation(7);
    // A group, which no message of ours has.
    response->GetReflection()->MutableUnknownFields(response)->AddGroup(9);
  };
  GrpcMasterStub alone({server_.address()}, clock_, {});
  EXPECT_THAT(alone.Locate(v1::LocateRequest(), Within(absl::Seconds(30))).status(),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  Server other;
  other.answer_locate = [](v1::LocateResponse* response) {
    response->add_results()->mutable_location()->set_generation(8);
  };
  GrpcMasterStub stub({server_.address(), other.address()}, clock_, {});
  ASSERT_OK_AND_ASSIGN(const LocateAnswer answer,
                       stub.Locate(v1::LocateRequest(), Within(absl::Seconds(30))));
  ASSERT_EQ(answer.results.size(), 1u);
  EXPECT_EQ(answer.results[0].location.generation, Generation{8});
}

grpc::Status NotLeader(const std::string& leader) {
  return ToGrpc(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                          "this master does not lead", {.leader = leader}));
}

TEST_F(GrpcMasterStubTest, GoesToTheLeaderThatIsNamedAndStaysThere) {
  Server bystander, leader;  // the leader is on no list
  std::atomic<int> asked{0}, passed{0};
  server_.answer = [&](grpc::ServerContext*) {
    ++asked;
    return NotLeader(leader.address());
  };
  bystander.answer = [&](grpc::ServerContext*) {
    ++passed;
    return grpc::Status::OK;
  };
  GrpcMasterStub stub({server_.address(), bystander.address()}, clock_, {});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  EXPECT_EQ(asked.load(), 1);
  EXPECT_EQ(passed.load(), 0);
  // Its end is the end of what was learnt only as long as nobody else leads.
  leader.Stop();
  server_.answer = [&](grpc::ServerContext*) { return NotLeader(bystander.address()); };
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  EXPECT_EQ(passed.load(), 1);
}

TEST_F(GrpcMasterStubTest, ThatAKeyIsNotThereIsALeadersAnswer) {
  Server leader;
  std::atomic<int> asked{0};
  server_.answer = [&](grpc::ServerContext*) {
    ++asked;
    return NotLeader("");
  };
  leader.answer = [](grpc::ServerContext*) {
    return ToGrpc(MakeError(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown, "none"));
  };
  GrpcMasterStub stub({server_.address(), leader.address()}, clock_, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))),
                Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
  }
  EXPECT_EQ(asked.load(), 1);
}

// Its etcd may be away for a moment: the standbys know no more than that it leads.
TEST_F(GrpcMasterStubTest, ThatNothingCanBeSavedNowIsALeadersAnswer) {
  Server standby;
  std::atomic<int> asked{0};
  standby.answer = [&](grpc::ServerContext*) {
    ++asked;
    return NotLeader(server_.address());
  };
  server_.answer = [](grpc::ServerContext*) {
    return ToGrpc(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNotSaved, "no etcd",
                            {.hint = "look at etcd"}));
  };
  GrpcMasterStub stub({standby.address(), server_.address()}, clock_, {});
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Exists(stub, Within(absl::Seconds(30)));
    EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotSaved));
    EXPECT_EQ(DetailOf(status)->hint, "look at etcd");
  }
  EXPECT_EQ(asked.load(), 1);
}

TEST_F(GrpcMasterStubTest, ACallThatBeganBeforeAFailoverDoesNotUndoWhatOthersFoundOut) {
  Server standby, leader;  // the leader is on no list
  std::atomic<bool> is_held{false}, may_end{false};
  std::atomic<int> asked{0};
  server_.answer = [&](grpc::ServerContext*) {
    ++asked;
    return NotLeader(leader.address());
  };
  server_.answer_start = [&](grpc::ServerContext* context) {
    is_held = true;
    while (!may_end.load() && !context->IsCancelled()) std::this_thread::yield();
    return NotLeader("");
  };
  standby.answer_start = [](grpc::ServerContext*) { return NotLeader(""); };
  GrpcMasterStub stub({server_.address(), standby.address()}, clock_,
                      {.silence_max = absl::Minutes(1)});
  std::thread before([&] {
    EXPECT_THAT(stub.StartPuts(v1::StartPutsRequest(), Within(absl::Minutes(4))),
                Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
  });
  while (!is_held.load()) std::this_thread::yield();
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  may_end = true;
  before.join();
  const int asked_before = asked.load();
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
  EXPECT_EQ(asked.load(), asked_before) << "who leads was known";
}

TEST_F(GrpcMasterStubTest, NobodyLeadsIsUnavailableAndEachWasAskedOnce) {
  Server other;
  std::atomic<int> asked{0};
  server_.answer = [&](grpc::ServerContext*) {
    ++asked;
    return NotLeader(other.address());
  };
  other.answer = [&](grpc::ServerContext*) {
    ++asked;
    return NotLeader(server_.address());
  };
  GrpcMasterStub stub({server_.address(), other.address(), "127.0.0.1:1"}, clock_, {});
  const absl::Status status = Exists(stub, Within(absl::Seconds(30)));
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat("no master leads: ", server_.address(), " (follows), ",
                                      other.address(), " (follows), 127.0.0.1:1")));
  EXPECT_EQ(asked.load(), 2);
}

TEST_F(GrpcMasterStubTest, ALeaderThatWasSilentIsNotWaitedForWheneverItIsNamed) {
  Server standby;
  std::atomic<int> unanswered{0};
  server_.answer = [&](grpc::ServerContext* context) {
    ++unanswered;
    return NeverAnswer(context);
  };
  standby.answer = [&](grpc::ServerContext*) { return NotLeader(server_.address()); };
  GrpcMasterStub stub({server_.address(), standby.address()}, clock_,
                      {.silence_max = absl::Seconds(2)});
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(60))),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
  const absl::Time begun = clock_.Now();
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(60))),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
  EXPECT_LT(clock_.Now() - begun, absl::Seconds(2));
  EXPECT_GE(unanswered.load(), 3) << "it is asked all the same: it may be there again";
}

TEST_F(GrpcMasterStubTest, KeepsTheTypedDetail) {
  server_.answer = [](grpc::ServerContext*) {
    return ToGrpc(MakeError(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown, "none"));
  };
  GrpcMasterStub stub({server_.address()}, clock_, {});
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(10))),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
}

TEST_F(GrpcMasterStubTest, EndsAtTheDeadline) {
  server_.answer = [](grpc::ServerContext* context) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  };
  GrpcMasterStub stub({server_.address()}, clock_, {});
  const absl::Time begun = clock_.Now();
  EXPECT_THAT(Exists(stub, Within(absl::Milliseconds(200))),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  EXPECT_GE(clock_.Now() - begun, absl::Milliseconds(190));
  EXPECT_LT(clock_.Now() - begun, absl::Seconds(5));
}

// So gRPC answers a call that reaches a server while it shuts down.
grpc::Status ShutsDown(grpc::ServerContext*) { return {grpc::StatusCode::CANCELLED, "CANCELLED"}; }

TEST_F(GrpcMasterStubTest, PassesOverAMasterThatShutsDown) {
  Server other;
  server_.answer = ShutsDown;
  GrpcMasterStub stub({server_.address(), other.address()}, clock_, {});
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
}

TEST_F(GrpcMasterStubTest, PassesOverWhatDoesNotSpeakAsAMasterDoes) {
  Server other;
  server_.answer = [](grpc::ServerContext*) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "frame of size 16777215 overflows");
  };
  GrpcMasterStub stub({server_.address(), other.address()}, clock_, {});
  EXPECT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());
}

TEST_F(GrpcMasterStubTest, ALoneMasterThatShutsDownIsUnavailable) {
  server_.answer = ShutsDown;
  GrpcMasterStub stub({server_.address()}, clock_, {});
  const absl::Status status = Exists(stub, Within(absl::Seconds(30)));
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(it shuts down)"));
}

// The master's timer may fire before ours. Either end of the call is the same to its caller.
TEST_F(GrpcMasterStubTest, WhatTheMasterEndsAtTheDeadlineHasEndedByTheDeadline) {
  GrpcMasterStub stub({server_.address()}, clock_, {});
  ASSERT_THAT(Exists(stub, Within(absl::Seconds(30))), IsOk());  // which connects
  server_.answer = ShutsDown;
  EXPECT_THAT(Exists(stub, Within(absl::Milliseconds(9))),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

TEST_F(GrpcMasterStubTest, EndsWhenCancelled) {
  CancelSource source;
  server_.answer = [&](grpc::ServerContext* context) {
    source.Cancel();
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  };
  GrpcMasterStub stub({server_.address()}, clock_, {});
  EXPECT_THAT(
      Exists(stub, {.deadline = clock_.Now() + absl::Seconds(30), .cancel = source.token()}),
      Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
}

}  // namespace
}  // namespace moonpool::client
