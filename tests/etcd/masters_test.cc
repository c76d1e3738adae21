// Three masters at a real etcd, a node and clients: leaders that are killed, stopped, cut off.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "common/version.h"
#include "moonpool/client.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"
#include "tests/etcd/etcd_process.h"

namespace moonpool::etcd_tests {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMasters = 3;

auto IsNotLeader() { return Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader); }

// The word behind `flag` in a line like "ready: --master A --http B".
std::string AddressIn(const std::string& line, const std::string& flag) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == flag) return words[i + 1];
  }
  return "";
}

// What a master says of itself, asked over the wire. It may still be under way when this is made.
class Question {
 public:
  explicit Question(const std::string& address)
      : stub_(v1::AdminService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    // One that is stopped answers when it goes on, if it does.
    context_.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
    request_.mutable_version()->set_major(kWireMajor);
    stub_->async()->GetStatus(&context_, &request_, &response_, [this](grpc::Status status) {
      status_ = FromGrpc(status);
      answered_.Notify();
    });
  }
  ~Question() {
    context_.TryCancel();
    answered_.WaitForNotification();
  }
  absl::StatusOr<uint32_t> Term() {
    answered_.WaitForNotification();
    if (!status_.ok()) return status_;
    return response_.term();
  }

 private:
  const std::unique_ptr<v1::AdminService::Stub> stub_;
  grpc::ClientContext context_;
  v1::GetStatusRequest request_;
  v1::GetStatusResponse response_;
  absl::Notification answered_;
  absl::Status status_;
};

class MastersTest : public EtcdTest {
 protected:
  struct Master {
    std::unique_ptr<dev::ChildProcess> process;
    std::string address;
    std::string http;
    bool is_stopped = false;
  };

  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    etcd_ = EtcdProcess::Start({});
    ASSERT_NE(etcd_, nullptr);
    for (size_t i = 0; i < kMasters; ++i) ASSERT_NO_FATAL_FAILURE(StartMaster());
  }
  void TearDown() override {
    for (Master& master : masters_) master.process->Signal(SIGCONT);
    if (!HasFailure()) return;
    for (size_t i = 0; i < masters_.size(); ++i) ADD_FAILURE() << Log(absl::StrCat("m", i));
  }

  std::string Log(const std::string& name) const {
    return dev::TailOfFile(absl::StrCat(dir_.path(), "/", name, ".log"), 60);
  }
  void StartMaster() {
    const std::string name = absl::StrCat("m", masters_.size());
    auto process = dev::ChildProcess::Start(
        {.name = name,
         .program = MOONPOOL_MASTER_PROGRAM,
         .args = {"--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--etcd-endpoints",
                  etcd_->endpoint(), "--etcd-prefix", "/moonpool/t"},
         .log_path = absl::StrCat(dir_.path(), "/", name, ".log")});
    ASSERT_THAT(process, IsOk());
    const auto ready = (*process)->WaitForLine("ready:", kPatience, -1);
    ASSERT_THAT(ready, IsOk());
    masters_.push_back({.process = *std::move(process),
                        .address = AddressIn(*ready, "--master"),
                        .http = AddressIn(*ready, "--http")});
  }
  std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const Master& master : masters_) addresses.push_back(master.address);
    return addresses;
  }
  void StartNode() {
    auto process = dev::ChildProcess::Start(
        {.name = "node",
         .program = MOONPOOL_NODE_PROGRAM,
         .args = {"--master", absl::StrJoin(Addresses(), ","), "--name", "alpha", "--dram", "64MiB",
                  "--data-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--shm-path",
                  absl::StrCat(dir_.path(), "/alpha.sock")},
         .log_path = absl::StrCat(dir_.path(), "/node.log")});
    ASSERT_THAT(process, IsOk());
    node_ = *std::move(process);
    ASSERT_THAT(node_->WaitForLine("ready:", kPatience, -1), IsOk()) << Log("node");
  }

  absl::StatusOr<uint32_t> Term(size_t master) { return Question(masters_[master].address).Term(); }
  // Of those that run and are not stopped.
  std::optional<size_t> AwaitLeader() {
    std::optional<size_t> leader;
    Eventually([&] {
      for (size_t i = 0; i < masters_.size(); ++i) {
        if (masters_[i].is_stopped || !masters_[i].process->running()) continue;
        if (Term(i).ok()) leader = i;
      }
      return leader.has_value();
    });
    EXPECT_TRUE(leader.has_value()) << "nobody leads";
    return leader;
  }
  bool AwaitLeaderNamedBy(size_t standby, size_t leader) {
    return Eventually([&] {
      const absl::Status status = Term(standby).status();
      return ReasonOf(status) == ErrorReason::kNotLeader &&
             DetailOf(status)->leader == masters_[leader].address;
    });
  }
  void Kill(size_t master) {
    masters_[master].process->Signal(SIGKILL);
    ASSERT_TRUE(masters_[master].process->WaitForExit(kPatience));
  }
  void Stop(size_t master) {
    masters_[master].process->Signal(SIGSTOP);
    masters_[master].is_stopped = true;
  }
  // Of a namespace that everybody opens with the same fingerprint.
  absl::StatusOr<std::string> Fingerprint(size_t master, const std::string& fingerprint) {
    const auto stub = v1::MasterService::NewStub(
        grpc::CreateChannel(masters_[master].address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
    v1::OpenNamespaceRequest request;
    request.mutable_header()->mutable_version()->set_major(kWireMajor);
    request.mutable_header()->set_namespace_("models");
    request.set_fingerprint(fingerprint);
    v1::OpenNamespaceResponse response;
    const absl::Status status = FromGrpc(stub->OpenNamespace(&context, request, &response));
    if (!status.ok()) return status;
    return response.fingerprint();
  }

  const TempDir dir_;
  std::unique_ptr<EtcdProcess> etcd_;
  std::vector<Master> masters_;
  std::unique_ptr<dev::ChildProcess> node_;
};

TEST_F(MastersTest, OneLeadsAndTheOthersNameIt) {
  const auto leader = AwaitLeader();
  ASSERT_TRUE(leader.has_value());
  for (size_t i = 0; i < kMasters; ++i) {
    if (i == *leader) continue;
    EXPECT_TRUE(AwaitLeaderNamedBy(i, *leader));
    EXPECT_THAT(Fingerprint(i, "f1"), IsNotLeader());
  }
  EXPECT_THAT(Fingerprint(*leader, "f1"), IsOk());
}

TEST_F(MastersTest, WhenTheLeaderIsKilledAnotherKnowsTheNamespaces) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  const auto term = Term(*first);
  ASSERT_THAT(term, IsOk());
  ASSERT_THAT(Fingerprint(*first, "f1"), IsOk());
  Kill(*first);
  const auto second = AwaitLeader();
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(*Term(*second), *term);
  EXPECT_THAT(Fingerprint(*second, "f2"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  EXPECT_THAT(Fingerprint(*second, "f1"), IsOk());
  EXPECT_TRUE(AwaitLeaderNamedBy(kMasters - *first - *second, *second));
}

TEST_F(MastersTest, ALeaderThatWasStoppedAnswersNotEvenTheFirstCall) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  Stop(*first);
  const auto second = AwaitLeader();
  ASSERT_TRUE(second.has_value());
  // It lies there when the process goes on.
  Question waiting(masters_[*first].address);
  masters_[*first].process->Signal(SIGCONT);
  EXPECT_THAT(waiting.Term(), IsNotLeader());
  EXPECT_TRUE(AwaitLeaderNamedBy(*first, *second));
}

TEST_F(MastersTest, ALeaderThatIsToldToStopIsFollowedInATermOfItsOwn) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  const auto term = Term(*first);
  masters_[*first].process->Signal(SIGTERM);
  ASSERT_TRUE(masters_[*first].process->WaitForExit(kPatience));
  EXPECT_EQ(masters_[*first].process->Poll(), 0);
  const auto second = AwaitLeader();
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(*Term(*second), *term);
}

TEST_F(MastersTest, WhileEtcdIsAwayNobodyAnswersAndAfterwardsThePoolIsAsItWas) {
  const auto leader = AwaitLeader();
  ASSERT_TRUE(leader.has_value());
  ASSERT_NO_FATAL_FAILURE(StartNode());
  const auto client = Client::Connect({.masters = {masters_[*leader].address}});
  ASSERT_THAT(client, IsOk());
  const std::vector<std::byte> bytes(4096, std::byte{7});
  ASSERT_TRUE(Eventually([&] { return (*client)->Put("k", bytes).ok(); })) << "its node comes up";
  const auto term = Term(*leader);

  etcd_->Kill();
  EXPECT_TRUE(Eventually([&] { return !Term(*leader).ok(); })) << "it does not fall silent";
  EXPECT_THAT(Term(*leader), IsNotLeader());
  for (size_t i = 0; i < kMasters; ++i) EXPECT_THAT(Term(i), IsNotLeader());
  EXPECT_THAT(Log(absl::StrCat("m", *leader)), HasSubstr("falls silent at the end of its lease"));
  ASSERT_TRUE(etcd_->Restart());
  const auto after = AwaitLeader();
  ASSERT_TRUE(after.has_value());
  // etcd gives each lease its whole length again: unless this machine is very slow it is the same
  // reign, and the node has stayed all the time.
  if (after == leader && *Term(*leader) == *term) {
    std::vector<std::byte> buffer(4096);
    absl::Status got;
    EXPECT_TRUE(Eventually([&] {
      got = (*client)->Get("k", absl::MakeSpan(buffer)).status();
      return got.ok();
    })) << Describe(got);
    EXPECT_EQ(buffer, bytes);
  } else {
    EXPECT_GT(*Term(*after), *term);
  }
}

class PoolTest : public MastersTest {
 protected:
  void SetUp() override {
    MastersTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    leader_ = AwaitLeader();
    ASSERT_TRUE(leader_.has_value());
    ASSERT_NO_FATAL_FAILURE(StartNode());
    auto client =
        Client::Connect({.masters = Addresses(), .name_space = "models", .fingerprint = "f1"});
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
    ASSERT_TRUE(Eventually([&] { return Put("kept").ok(); })) << "its node comes up";
    ASSERT_THAT(Put("removed"), IsOk());
    ASSERT_THAT(client_->Remove({"removed"})[0], IsOk());
  }
  absl::Status Put(const std::string& key) { return client_->Put(key, bytes_); }
  absl::Status Get(const std::string& key) {
    std::vector<std::byte> buffer(bytes_.size());
    const absl::Status got = client_->Get(key, absl::MakeSpan(buffer)).status();
    if (got.ok()) {
      EXPECT_EQ(buffer, bytes_);
    }
    return got;
  }
  // With another leader, whom nobody has told the client or the node of.
  void ExpectThePoolGoesOn() {
    ASSERT_TRUE(AwaitLeader().has_value());
    absl::Status put;
    EXPECT_TRUE(Eventually([&] {
      put = Put("new");
      return put.ok();
    })) << Describe(put);
    EXPECT_THAT(Get("kept"), IsOk());
    EXPECT_THAT(Get("new"), IsOk());
    EXPECT_THAT(Get("removed"), StatusIs(absl::StatusCode::kNotFound));
    const auto other =
        Client::Connect({.masters = Addresses(), .name_space = "models", .fingerprint = "f2"});
    EXPECT_THAT(other,
                Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  }

  const std::vector<std::byte> bytes_ = std::vector<std::byte>(4096, std::byte{7});
  std::optional<size_t> leader_;
  std::unique_ptr<Client> client_;
};

TEST_F(PoolTest, OutlivesALeaderThatIsKilled) {
  Kill(*leader_);
  ExpectThePoolGoesOn();
}

TEST_F(PoolTest, OutlivesALeaderThatIsStopped) {
  Stop(*leader_);
  ExpectThePoolGoesOn();
  // The old one neither gets the node back nor answers.
  masters_[*leader_].process->Signal(SIGCONT);
  masters_[*leader_].is_stopped = false;
  EXPECT_TRUE(
      Eventually([&] { return ReasonOf(Term(*leader_).status()) == ErrorReason::kNotLeader; }));
  EXPECT_THAT(Put("newer"), IsOk());
}

TEST_F(PoolTest, OutlivesALeaderThatIsToldToStop) {
  masters_[*leader_].process->Signal(SIGTERM);
  ASSERT_TRUE(masters_[*leader_].process->WaitForExit(kPatience));
  ExpectThePoolGoesOn();
}

}  // namespace
}  // namespace moonpool::etcd_tests
