// Masters that are elected, over real gRPC, at an etcd that does as told.
#include "master/service/candidacy.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/status_proto.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "master/etcd/testing/served_etcd.h"
#include "master/meta/records.h"
#include "master/service/server.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"
#include "moonpool/v1/membership.grpc.pb.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Fate = ServedEtcd::Fate;

constexpr absl::Duration kPatience = absl::Seconds(30);

bool Eventually(const std::function<bool()>& is_true) {
  const absl::Time give_up = absl::Now() + kPatience;
  while (!is_true()) {
    if (absl::Now() >= give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

auto IsNotLeader() { return Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader); }

std::string LeaderIn(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->leader : "no detail";
}

void FillVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
}

// One of several masters, in the test's own process.
class Master {
 public:
  Master(ServedEtcd& etcd, const Clock& clock, absl::Duration lease, absl::Duration load_timeout)
      : server_({.listen = "127.0.0.1:0"}, {}, Mastership::kElected,
                {clock, registry_, log_.logger()}) {
    EXPECT_THAT(server_.Start(), IsOk());
    const auto channel = grpc::CreateChannel(server_.address(), grpc::InsecureChannelCredentials());
    master_ = v1::MasterService::NewStub(channel);
    admin_ = v1::AdminService::NewStub(channel);
    membership_ = v1::MembershipService::NewStub(channel);
    server_.StandForElection(
        {.election = {.prefix = "/t", .address = server_.address(), .lease = lease},
         .load_timeout = load_timeout,
         .load_retry = absl::Milliseconds(1)},
        etcd);
  }

  MasterServer& server() { return server_; }
  const std::string& address() const { return server_.address(); }
  std::vector<std::string> log() const { return log_.lines(); }
  std::string metrics() const { return registry_.Text(); }
  std::string health() const { return server_.health().text; }

  absl::Status Open(const std::string& fingerprint) {
    v1::OpenNamespaceRequest request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_namespace_("models");
    request.set_fingerprint(fingerprint);
    v1::OpenNamespaceResponse response;
    grpc::ClientContext context;
    SetDeadline(context);
    return FromGrpc(master_->OpenNamespace(&context, request, &response));
  }
  absl::StatusOr<uint32_t> Term() {
    v1::GetStatusRequest request;
    FillVersion(request.mutable_version());
    v1::GetStatusResponse response;
    grpc::ClientContext context;
    SetDeadline(context);
    const absl::Status status = FromGrpc(admin_->GetStatus(&context, request, &response));
    if (!status.ok()) return status;
    return response.term();
  }
  bool AwaitService() {
    return Eventually([&] { return Term().ok(); });
  }
  struct SessionEnd {
    std::optional<v1::MasterMessage> message;  // the last one
    absl::Status status;
  };
  // Registers as a node that has seen this term, and stays for one message.
  SessionEnd Register(uint32_t highest_term_seen) {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto stream = membership_->Session(&context);
    v1::NodeMessage message;
    v1::Register* out = message.mutable_register_();
    FillVersion(out->mutable_version());
    out->set_name("n1");
    out->set_incarnation(1);
    out->set_tcp_address("127.0.0.1:1");
    out->set_highest_term_seen(highest_term_seen);
    v1::Segment* segment = out->add_segments();
    segment->set_medium("dram");
    segment->set_capacity_bytes(1 << 20);
    stream->Write(message);
    SessionEnd end;
    v1::MasterMessage answer;
    if (stream->Read(&answer)) end.message = answer;
    stream->WritesDone();
    while (stream->Read(&answer)) {
    }
    end.status = FromGrpc(stream->Finish());
    return end;
  }

 private:
  TestLogger log_;
  metrics::Registry registry_;
  MasterServer server_;
  std::unique_ptr<v1::MasterService::Stub> master_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  std::unique_ptr<v1::MembershipService::Stub> membership_;
};

class CandidacyTest : public testing::Test {
 protected:
  std::unique_ptr<Master> NewMaster(absl::Duration lease = absl::Seconds(10),
                                    absl::Duration load_timeout = kPatience) {
    return std::make_unique<Master>(etcd_, clock_, lease, load_timeout);
  }
  template <typename Request>
  void Refuse() {
    etcd_.SetOracle([](const EtcdRequest& request) {
      return std::holds_alternative<Request>(request) ? Fate::kRefused : Fate::kServed;
    });
  }
  void ServeAll() { etcd_.SetOracle(nullptr); }
  void PutOtherLeader(const std::string& address) {
    ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}), IsOk());
    ASSERT_THAT(etcd_.Apply(EtcdTxn{
                    .success = {EtcdPut{.key = "/t/leader",
                                        .value = absl::StrCat(
                                            "term=7 candidate=00000000000000ff address=", address)},
                                EtcdPut{.key = "/t/term", .value = "7"}}}),
                IsOk());
  }
  void DeleteLeader() {
    ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}), IsOk());
  }

  const SteadyClock clock_ = {};
  ServedEtcd etcd_{clock_};
};

TEST_F(CandidacyTest, TheElectedServesAndResignsWhenItIsStopped) {
  const auto master = NewMaster();
  ASSERT_TRUE(master->AwaitService());
  EXPECT_EQ(*master->Term(), 1u);
  EXPECT_THAT(master->Open("f1"), IsOk());
  EXPECT_THAT(master->health(), HasSubstr("leading in term 1; serving, reign "));
  EXPECT_THAT(master->health(), HasSubstr("lease for another 8."));
  EXPECT_TRUE(Eventually(
      [&] { return master->metrics().find("moonpool_master_leads 1") != std::string::npos; }));
  master->server().Stop();
  EXPECT_EQ(etcd_.Value("/t/leader"), "");
}

TEST_F(CandidacyTest, TheNextOneKnowsWhatTheOneBeforeHasPromised) {
  auto first = NewMaster();
  ASSERT_TRUE(first->AwaitService());
  const auto second = NewMaster();
  ASSERT_TRUE(Eventually([&] { return LeaderIn(second->Open("f1")) == first->address(); }));
  EXPECT_THAT(second->Term(), IsNotLeader());
  EXPECT_EQ(second->health(), absl::StrCat("following ", first->address()));
  ASSERT_THAT(first->Open("f1"), IsOk());
  first->server().Stop();
  ASSERT_TRUE(second->AwaitService());
  EXPECT_EQ(*second->Term(), 2u);
  EXPECT_THAT(second->Open("f2"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  EXPECT_THAT(second->Open("f1"), IsOk());
}

TEST_F(CandidacyTest, NodesAreToldWhoLeads) {
  PutOtherLeader("b:2");
  const auto master = NewMaster();
  ASSERT_TRUE(Eventually([&] { return LeaderIn(master->Open("f1")) == "b:2"; }));
  const Master::SessionEnd end = master->Register(0);
  ASSERT_TRUE(end.message.has_value());
  EXPECT_THAT(StatusFromProto(end.message->refused().status()), IsNotLeader());
  EXPECT_EQ(LeaderIn(StatusFromProto(end.message->refused().status())), "b:2");
  EXPECT_THAT(end.status, IsNotLeader());
  EXPECT_THAT(master->metrics(), HasSubstr("moonpool_master_not_leader_total"));
}

// A node that has met masters of another pool, or of other times.
TEST_F(CandidacyTest, ATermThatANodeHasSeenIsRaisedInTheElection) {
  auto first = NewMaster();
  ASSERT_TRUE(first->AwaitService());
  const Master::SessionEnd end = first->Register(50);
  ASSERT_TRUE(end.message.has_value());
  EXPECT_EQ(end.message->registered().term(), 51u);
  EXPECT_EQ(etcd_.Value("/t/term"), "51");
  EXPECT_EQ(*first->Term(), 51u);
  first->server().Stop();
  const auto second = NewMaster();
  ASSERT_TRUE(second->AwaitService());
  EXPECT_EQ(*second->Term(), 52u);
}

// As after an operator has restored one and not the other.
TEST_F(CandidacyTest, ATermThatTheStoreKnowsIsOvertakenBeforeTheReignBegins) {
  const std::string term = *EncodeChange(Term{40}).value;
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdPut{.key = "/t/meta/term", .value = term}}}),
              IsOk());
  const auto master = NewMaster();
  ASSERT_TRUE(master->AwaitService());
  EXPECT_EQ(*master->Term(), 41u);
  EXPECT_EQ(etcd_.Value("/t/term"), "41");
}

TEST_F(CandidacyTest, UntilTheRaisedTermIsDurableTheNodeIsToldNothing) {
  const auto master = NewMaster();
  ASSERT_TRUE(master->AwaitService());
  // The election cannot write, the store could.
  etcd_.SetOracle([](const EtcdRequest& request) {
    const auto* txn = std::get_if<EtcdTxn>(&request);
    if (txn == nullptr || txn->success.empty()) return Fate::kServed;
    const auto* put = std::get_if<EtcdPut>(&txn->success[0]);
    return put != nullptr && put->key == "/t/leader" ? Fate::kRefused : Fate::kServed;
  });
  std::thread node([&] { EXPECT_EQ(master->Register(50).message->registered().term(), 51u); });
  // Refused over and over; then it may.
  EXPECT_TRUE(Eventually([&] {
    return master->metrics().find("moonpool_master_election_failures_total 2") != std::string::npos;
  }));
  EXPECT_EQ(etcd_.Value("/t/term"), "1");
  ServeAll();
  node.join();
  EXPECT_EQ(etcd_.Value("/t/term"), "51");
}

TEST_F(CandidacyTest, ALoadThatFailsIsSaidAndRepeated) {
  Refuse<EtcdGet>();
  const auto master = NewMaster(absl::Seconds(10), /*load_timeout=*/absl::Milliseconds(50));
  ASSERT_TRUE(Eventually([&] { return master->health().find("which fails") != std::string::npos; }))
      << master->health();
  EXPECT_TRUE(Eventually([&] {  // said a moment after it is shown
    return testing::Matches(Contains(HasSubstr("cannot load the durable state")))(master->log());
  }));
  EXPECT_THAT(master->Open("f1"), IsNotLeader());
  ServeAll();
  EXPECT_TRUE(master->AwaitService());
  EXPECT_THAT(master->health(), HasSubstr("serving"));
}

TEST_F(CandidacyTest, AReignThatIsLostWhileItsStateIsLoadedDoesNotBegin) {
  Refuse<EtcdGet>();
  const auto master = NewMaster();
  ASSERT_TRUE(Eventually(
      [&] { return master->health().find("loading the durable state") != std::string::npos; }));
  PutOtherLeader("b:2");
  ASSERT_TRUE(Eventually([&] { return LeaderIn(master->Open("f1")) == "b:2"; }));
  ServeAll();
  DeleteLeader();
  ASSERT_TRUE(master->AwaitService());
  EXPECT_EQ(*master->Term(), 8u);
  EXPECT_THAT(master->log(), Not(Contains(HasSubstr("cannot load the durable state"))))
      << "the load ended with its reign";
}

TEST_F(CandidacyTest, AMasterThatStopsDoesNotWaitForItsLoad) {
  Refuse<EtcdGet>();
  const auto master = NewMaster(absl::Seconds(10), /*load_timeout=*/absl::Hours(24));
  ASSERT_TRUE(Eventually(
      [&] { return master->health().find("loading the durable state") != std::string::npos; }));
  master->server().Stop();
  EXPECT_EQ(etcd_.Value("/t/leader"), "");
}

TEST_F(CandidacyTest, AMasterThatStopsDoesNotWaitForItsWrites) {
  const auto master = NewMaster();
  ASSERT_TRUE(master->AwaitService());
  std::atomic<bool> is_asked{false};
  etcd_.SetOracle([&](const EtcdRequest& request) {
    const auto* txn = std::get_if<EtcdTxn>(&request);
    if (txn == nullptr || txn->success.empty()) return Fate::kServed;
    const auto* put = std::get_if<EtcdPut>(&txn->success[0]);
    if (put == nullptr || put->key.find("/t/meta/") != 0) return Fate::kServed;
    is_asked = true;
    return Fate::kRefused;
  });
  std::thread client([&] { EXPECT_FALSE(master->Open("f1").ok()); });
  ASSERT_TRUE(Eventually([&] { return is_asked.load(); }));
  master->server().Stop();
  client.join();
  EXPECT_THAT(master->log(), Contains(HasSubstr("nobody waits for etcd any more")));
  ServeAll();
}

// R10, and the same reign goes on.
TEST_F(CandidacyTest, WithoutRenewalsItFallsSilentAndGoesOnWhereItWas) {
  const auto master = NewMaster(absl::Seconds(1));
  ASSERT_TRUE(master->AwaitService());
  ASSERT_THAT(master->Open("f1"), IsOk());
  etcd_.SetOracle([](const EtcdRequest&) { return Fate::kRefused; });
  ASSERT_TRUE(Eventually([&] { return !master->Term().ok(); }));
  EXPECT_THAT(master->Term(), IsNotLeader());
  EXPECT_THAT(master->health(), HasSubstr("silent without a lease"));
  EXPECT_THAT(master->log(), Contains(HasSubstr("falls silent at the end of its lease")));
  ServeAll();
  ASSERT_TRUE(master->AwaitService());
  EXPECT_EQ(*master->Term(), 1u) << "the same reign";
  EXPECT_THAT(master->health(), HasSubstr("leading in term 1; serving"));
}

TEST_F(CandidacyTest, WhoseKeyIsDeletedLeadsAnewInAnotherTerm) {
  const auto master = NewMaster();
  ASSERT_TRUE(master->AwaitService());
  ASSERT_THAT(master->Open("f1"), IsOk());
  DeleteLeader();
  ASSERT_TRUE(Eventually([&] {
    const auto term = master->Term();
    return term.ok() && *term == 2;
  }));
  EXPECT_THAT(master->Open("f2"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
}

}  // namespace
}  // namespace moonpool::master
