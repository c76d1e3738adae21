// Peers that send nonsense, speak another version, or ask for what cannot be.
#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/random.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/protobuf_log.h"
#include "common/testing/status_matchers.h"
#include "common/unique_fd.h"
#include "common/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"
#include "tests/e2e/harness.h"
#include "transport/frame.h"

namespace moonpool::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

UniqueFd ConnectTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(colon + 1), &port)) << address;
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << address;
  return fd;
}

UniqueFd ConnectUnix(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::strncpy(to.sun_path, path.c_str(), sizeof(to.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << path;
  return fd;
}

// Sends, then reads until the peer closes. False: it kept the connection open.
bool SendAndDrain(int fd, const std::string& bytes, std::string* answer) {
  (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  char buffer[4096];
  while (true) {
    pollfd wait = {fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) return false;
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got <= 0) return true;
    if (answer != nullptr) answer->append(buffer, static_cast<size_t>(got));
  }
}

std::string RandomBytes(uint64_t seed, size_t size) {
  Random random(seed);
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(random.Next());
  return bytes;
}

// A whole HELLO frame that speaks wire version `major`.
std::string HelloFrame(uint16_t major, uint64_t incarnation) {
  std::string frame(128, '\0');
  const auto set = [&frame](size_t at, uint64_t value, size_t bytes) {
    std::memcpy(frame.data() + at, &value, bytes);
  };
  frame[0] = 'M';
  frame[1] = 'P';
  set(2, 1, 1);  // HELLO
  set(4, transport::kHelloBodyBytes, 4);
  set(8, 1, 8);  // request id
  std::memcpy(frame.data() + 24, "MPDP", 4);
  set(28, major, 2);
  set(32, incarnation, 8);
  set(40, 77, 8);  // client id
  frame.resize(transport::Padded(24 + transport::kHelloBodyBytes));
  return frame;
}

class HostileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pool_ = Pool::Start({.nodes = 1, .dram_bytes = uint64_t{32} << 20}).release();
  }
  static void TearDownTestSuite() {
    delete pool_;
    pool_ = nullptr;
  }
  void SetUp() override {
    ASSERT_NE(pool_, nullptr);
    client_ = pool_->Connect();
  }
  // The pool serves as if nothing had happened.
  void ExpectServing(const std::string& key) {
    ASSERT_THAT(client_->Put(key, ContentOf(key, 100'000)), IsOk());
    for (const Path path : {Path::kTcp, Path::kShm}) {
      const auto client = pool_->Connect({.path = path});
      std::vector<std::byte> buffer(100'000);
      const auto got = client->Get(key, absl::MakeSpan(buffer));
      ASSERT_TRUE(got.ok()) << Describe(got.status());
      EXPECT_TRUE(HoldsContentOf(key, buffer));
    }
    EXPECT_TRUE(pool_->cluster().node(0).process->running());
    EXPECT_TRUE(pool_->cluster().master().process->running());
  }
  static std::string Address(const char* name) {
    return pool_->cluster().node(0).addresses.at(name);
  }

  static Pool* pool_;
  std::unique_ptr<Client> client_;
};

Pool* HostileTest::pool_ = nullptr;

TEST_F(HostileTest, GarbageOnTheDataPortsOnlyClosesTheConnection) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string garbage = RandomBytes(seed, 1 + seed * 300);
    EXPECT_TRUE(SendAndDrain(ConnectTcp(Address("tcp")).get(), garbage, nullptr)) << seed;
    EXPECT_TRUE(SendAndDrain(ConnectUnix(Address("shm")).get(), garbage, nullptr)) << seed;
  }
  EXPECT_TRUE(SendAndDrain(ConnectTcp(Address("tcp")).get(), "GET / HTTP/1.1\r\n\r\n", nullptr));
  ExpectServing("after garbage on the data ports");
}

TEST_F(HostileTest, GarbageOnTheMasterPortOnlyClosesTheConnection) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(SendAndDrain(ConnectTcp(pool_->master()).get(), RandomBytes(seed, 500), nullptr));
  }
  ExpectServing("after garbage on the master's port");
}

TEST_F(HostileTest, ADataPeerOfAnotherMajorVersionIsToldSo) {
  std::string answer;
  EXPECT_TRUE(
      SendAndDrain(ConnectTcp(Address("tcp")).get(), HelloFrame(kWireMajor + 1, 1), &answer));
  ASSERT_GE(answer.size(), 24u + transport::kErrorFixedBytes);
  EXPECT_EQ(answer[2], static_cast<char>(transport::FrameType::kError));
  uint16_t reason = 0;
  std::memcpy(&reason, answer.data() + 24 + 2, 2);
  EXPECT_EQ(ReasonFromNumber(reason), ErrorReason::kPeerVersion);
  EXPECT_THAT(answer, HasSubstr("version"));
}

TEST_F(HostileTest, AControlPeerOfAnotherMajorVersionIsToldSo) {
  const auto channel = grpc::CreateChannel(pool_->master(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
  v1::ExistsRequest request;
  request.mutable_header()->mutable_version()->set_major(kWireMajor + 1);
  request.mutable_header()->set_namespace_("default");
  request.mutable_header()->set_timeout_ms(5000);
  request.add_keys("k");
  v1::ExistsResponse response;
  const absl::Status status =
      FromGrpc(v1::MasterService::NewStub(channel)->Exists(&context, request, &response));
  EXPECT_EQ(ReasonOf(status), ErrorReason::kPeerVersion) << Describe(status);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

// Whoever sends them decides how many there are, and nobody may be reading the log.
TEST_F(HostileTest, RequestsThatAreNoTextAreRefusedAndNotLogged) {
  SilenceProtobufLog();  // of this process, which writes them
  const auto stub = v1::AdminService::NewStub(
      grpc::CreateChannel(pool_->master(), grpc::InsecureChannelCredentials()));
  v1::WhyRequest request;
  request.mutable_version()->set_major(kWireMajor);
  request.set_namespace_("\xff\xfe");
  request.set_key("k");
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
    v1::WhyResponse response;
    EXPECT_FALSE(stub->Why(&context, request, &response).ok());
  }
  std::ifstream log(pool_->cluster().run_dir() + "/master.log");
  const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("term begins")) << "it is the log";
  EXPECT_THAT(text, Not(HasSubstr("libprotobuf")));
  ExpectServing("after requests that are no text");
}

TEST_F(HostileTest, ABatchWithADuplicateStoresItOnce) {
  const std::vector<std::byte> value = ContentOf("dup", 1000);
  const std::vector<absl::Status> results = client_->PutMany(
      std::vector<PutItem>{{.key = "dup", .value = {value}}, {.key = "dup", .value = {value}}});
  EXPECT_THAT(results[0], IsOk());
  EXPECT_EQ(ReasonOf(results[1]), ErrorReason::kDuplicateKey) << Describe(results[1]);
}

TEST_F(HostileTest, AShortBufferIsRefusedWithTheSizeNeeded) {
  ASSERT_THAT(client_->Put("long", ContentOf("long", 5000)), IsOk());
  std::vector<std::byte> buffer(4999);
  const auto got = client_->Get("long", absl::MakeSpan(buffer));
  EXPECT_EQ(ReasonOf(got.status()), ErrorReason::kBufferTooShort);
  EXPECT_THAT(got.status().message(), HasSubstr("5000"));
}

TEST_F(HostileTest, BadKeysAreRefused) {
  EXPECT_EQ(ReasonOf(client_->Put("", ContentOf("", 10))), ErrorReason::kKeyEmpty);
  EXPECT_EQ(ReasonOf(client_->Put(std::string(1025, 'k'), ContentOf("", 10))),
            ErrorReason::kKeyTooLong);
  ASSERT_THAT(client_->Put(std::string(1024, 'k'), ContentOf("", 10)), IsOk());
}

TEST_F(HostileTest, AnUnknownNamespaceIsTyped) {
  const auto client = Client::Connect({.masters = {pool_->master()}, .name_space = "nobody"});
  EXPECT_EQ(ReasonOf(client.status()), ErrorReason::kNamespaceUnknown) << Describe(client.status());
}

TEST_F(HostileTest, ADeadMasterIsTypedAndBounded) {
  const auto client =
      Client::Connect({.masters = {"127.0.0.1:1"}, .timeout = absl::Milliseconds(300)});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable) << Describe(client.status());
  EXPECT_THAT(client.status().message(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace moonpool::e2e
