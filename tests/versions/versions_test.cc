// Whoever speaks another minor version is served: what was recorded of an older release is played
// to today's node, master, link and client. And the same as a release to come would say it: of a
// higher minor, with fields that nobody knows yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client_sdk/core/core_client.h"
#include "common/log.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/message.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "master/handlers/testing/message_done.h"
#include "storage_node/link/master_link.h"
#include "storage_node/pool/testing/test_pool.h"
#include "storage_node/serve/node_target.h"
#include "tests/versions/client_script.h"
#include "tests/versions/recording.h"
#include "transport/frame.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/hostile_peer.h"
#include "transport/testing/raw_listener.h"
#include "transport/waiter.h"

namespace moonpool::versions {
namespace {

using ::testing::SizeIs;
using transport::HostilePeer;

constexpr char kLaterMinor = 99;
// "MPDP", major, minor: where a HELLO and its answer name the version.
constexpr size_t kHelloMinorAt = transport::kFrameHeaderBytes + 6;

void ForEachMessage(google::protobuf::Message& message,
                    const std::function<void(google::protobuf::Message&)>& visit) {
  visit(message);
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      ForEachMessage(*reflection.MutableMessage(&message, field), visit);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      ForEachMessage(*reflection.MutableRepeatedMessage(&message, field, i), visit);
    }
  }
}

// The codes of all that is answered, in order.
template <typename Message>
std::vector<int> CodesOf(Message message) {
  std::vector<int> codes;
  ForEachMessage(message, [&](google::protobuf::Message& part) {
    if (part.GetDescriptor() != v1::Status::descriptor()) return;
    v1::Status status;
    status.CopyFrom(part);
    codes.push_back(status.code());
  });
  return codes;
}

bool TakeAll(HostilePeer& peer, std::string* bytes) {
  return peer.Take(reinterpret_cast<std::byte*>(bytes->data()), bytes->size());
}

struct Release {
  const char* recording;
  bool is_later;  // what was recorded, as a release to come would say it
};

class OtherRelease : public ::testing::TestWithParam<Release> {
 protected:
  std::vector<Line> Lines() const {
    std::vector<Line> lines =
        Recording::Load(absl::StrCat(MOONPOOL_VERSIONS_TESTDATA, "/", GetParam().recording));
    if (!GetParam().is_later) return lines;
    std::map<std::string, int> pieces;
    for (Line& line : lines) {
      if (line.what == "bytes" && pieces[line.way]++ == 0) line.bytes[kHelloMinorAt] = kLaterMinor;
    }
    return lines;
  }

  template <typename Message>
  Message Parse(const Line& line) const {
    Message message;
    EXPECT_TRUE(message.ParseFromString(line.bytes)) << line.way << " " << line.what;
    if (!GetParam().is_later) return message;
    ForEachMessage(message, [](google::protobuf::Message& part) {
      part.GetReflection()->MutableUnknownFields(&part)->AddVarint(1000, 1);
      if (part.GetDescriptor() != v1::Version::descriptor()) return;
      part.GetReflection()->SetUInt32(&part, part.GetDescriptor()->FindFieldByName("minor"),
                                      uint32_t{kLaterMinor});
    });
    Message later;
    EXPECT_TRUE(later.ParseFromString(message.SerializeAsString()));
    return later;
  }

  SteadyClock clock_;
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(100);
  metrics::Registry registry_;
};

std::vector<std::string> ClientsIn(const std::vector<Line>& lines) {
  std::vector<std::string> clients;
  for (const Line& line : lines) {
    const size_t arrow = line.way.find(">node");
    if (line.what != "bytes" || arrow == std::string::npos) continue;
    const std::string client = line.way.substr(0, arrow);
    if (std::find(clients.begin(), clients.end(), client) == clients.end()) {
      clients.push_back(client);
    }
  }
  return clients;
}

TEST_P(OtherRelease, ItsClientsAreServedByANode) {
  storage_node::TestPool pool;
  pool.index().NoteTerm(Term{kTerm});
  storage_node::ServeMetrics metrics(registry_);
  storage_node::NodeTarget target(Incarnation{kIncarnation}, pool.index(), metrics);
  const auto server = transport::NewTcpServer(target, {}, clock_, Logger::Null());
  ASSERT_THAT(server->Start(), IsOk());
  const auto address = transport::ParseNumericAddress(server->address());
  std::map<std::string, HostilePeer> clients;
  const std::vector<Line> lines = Lines();
  ASSERT_THAT(ClientsIn(lines), SizeIs(2));
  for (const Line& line : lines) {
    if (line.what != "bytes") continue;
    if (absl::EndsWith(line.way, ">node")) {
      const std::string name = line.way.substr(0, line.way.find('>'));
      if (!clients.contains(name)) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(
            connect(fd, reinterpret_cast<const sockaddr*>(&address->storage), address->length), 0);
        clients.emplace(name, HostilePeer(fd));
      }
      ASSERT_TRUE(clients.at(name).Send(line.bytes));
      continue;
    }
    HostilePeer& client = clients.at(line.way.substr(line.way.find('>') + 1));
    std::string answer(line.bytes.size(), '\0');
    ASSERT_TRUE(TakeAll(client, &answer)) << line.way;
    // A HELLO_OK names the node's own minor.
    const bool is_hello =
        absl::string_view(line.bytes).substr(transport::kFrameHeaderBytes, 4) == "MPDP";
    if (is_hello) answer[kHelloMinorAt] = line.bytes[kHelloMinorAt];
    EXPECT_EQ(answer, line.bytes);
  }
  EXPECT_THAT(pool.Inventory(), SizeIs(2));
  clients.clear();
  server->Stop();
}

// Requests, in the order in which they came, and what they are answered.
class Answers {
 public:
  template <typename Response, typename Request, typename Start>
  void Ask(const Request& request, Start start) {
    start(request, master::MessageDone<Response>{
                       [this](const absl::Status& status, const Response& response) {
                         EXPECT_THAT(status, IsOk());
                         codes_.push_back(CodesOf(response));
                       }});
  }
  size_t size() const { return codes_.size(); }
  std::vector<int> Take() {
    std::vector<int> codes = std::move(codes_.front());
    codes_.pop_front();
    return codes;
  }

 private:
  std::deque<std::vector<int>> codes_;
};

TEST_P(OtherRelease, ItsClientsAndNodesAreServedByAMaster) {
  master::Core core({}, Term{kTerm}, Random(1));
  master::Handlers handlers(core, {}, now_);
  const auto session = *handlers.OpenSession([] {}, now_);
  Answers answers;
  const std::map<std::string, std::function<void(const Line&)>> methods = {
#define MOONPOOL_METHOD(Method)                                                            \
  {                                                                                        \
#Method, [&](const Line& line) {                                                         \
     answers.Ask<v1::Method##Response>(Parse<v1::Method##Request>(line), [&](const auto& request, auto done) {    \
       handlers.Method(request, now_, std::move(done));                                     \
     });                                                                                    \
   } \
  }
      MOONPOOL_METHOD(OpenNamespace), MOONPOOL_METHOD(StartPuts), MOONPOOL_METHOD(CommitPuts),
      MOONPOOL_METHOD(Locate),        MOONPOOL_METHOD(Exists),    MOONPOOL_METHOD(MatchPrefix),
      MOONPOOL_METHOD(Remove)};
#undef MOONPOOL_METHOD
  const std::map<std::string, std::function<std::vector<int>(const Line&)>> recorded = {
#define MOONPOOL_METHOD(Method)                                                           \
  {                                                                                       \
#Method, [&](const Line& line) { return CodesOf(Parse<v1::Method##Response>(line)); } \
  }
      MOONPOOL_METHOD(OpenNamespace), MOONPOOL_METHOD(StartPuts), MOONPOOL_METHOD(CommitPuts),
      MOONPOOL_METHOD(Locate),        MOONPOOL_METHOD(Exists),    MOONPOOL_METHOD(MatchPrefix),
      MOONPOOL_METHOD(Remove)};
#undef MOONPOOL_METHOD
  std::vector<v1::MasterMessage> told;
  std::vector<v1::MasterMessage> told_then;
  for (const Line& line : Lines()) {
    now_ += absl::Milliseconds(5);
    if (line.way == "client>master") methods.at(line.what)(line);
    if (line.way == "node>master") {
      handlers.OnNodeMessage(*session, Parse<v1::NodeMessage>(line), now_);
    }
    handlers.Tick(now_);
    while (auto message = session->TakeMessage()) told.push_back(*std::move(message));
    if (line.way == "master>node") told_then.push_back(Parse<v1::MasterMessage>(line));
    if (line.way != "master>client") continue;
    ASSERT_EQ(answers.size(), 1u) << line.what;
    EXPECT_EQ(answers.Take(), recorded.at(line.what)(line)) << line.what;
  }
  EXPECT_FALSE(session->is_finished());
  EXPECT_EQ(session->protocol_errors(), 0u);
  EXPECT_EQ(session->records_quarantined(), 0u);
  // The node is told what it was told then: it is registered, and is to forget the same.
  const auto freed = [](const std::vector<v1::MasterMessage>& messages) {
    std::vector<uint64_t> generations;
    for (const v1::MasterMessage& message : messages) {
      for (const uint64_t one : message.command().free().generations()) generations.push_back(one);
    }
    return generations;
  };
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told[0].has_registered());
  EXPECT_THAT(freed(told), SizeIs(1));
  EXPECT_EQ(freed(told), freed(told_then));
  const master::StatusResult status = core.GetStatus(now_);
  EXPECT_EQ(status.open_grants, 0u);
  EXPECT_EQ(status.tombstones, 0u) << "the node has confirmed the removal";
  handlers.CloseSession(*session, now_);
}

TEST_P(OtherRelease, ItsMastersAreObeyedByANode) {
  storage_node::TestPool pool;
  pool.index().NoteTerm(Term{1});
  storage_node::CopyQueue copies;
  storage_node::LinkMetrics metrics(registry_);
  storage_node::MasterLink link({.name = "n1",
                                 .incarnation = Incarnation{kIncarnation},
                                 .host_id = "",
                                 .rack = "",
                                 .tcp_address = kNodeAddress,
                                 .shm_path = ""},
                                {.masters = {"master"}},
                                {pool.index(), copies, metrics, Logger::Null()}, Random(1));
  std::vector<v1::CommandResult> results;
  const auto carry_out = [&](const storage_node::LinkOutput& out) {
    ASSERT_FALSE(out.disconnect) << link.last_failure();
    for (const v1::NodeMessage& message : out.send) {
      if (message.has_command_result()) results.push_back(message.command_result());
    }
  };
  ASSERT_TRUE(link.Tick(now_, true).connect.has_value());
  carry_out(link.OnConnected(now_));
  std::vector<Generation> freed;
  for (const Line& line : Lines()) {
    now_ += absl::Milliseconds(5);
    carry_out(link.Tick(now_, true));
    if (line.way == "node>master") {
      // What this node has to have sealed, too.
      const auto message = Parse<v1::NodeMessage>(line);
      for (const v1::SealedPart& part : message.seal_report().parts()) {
        ASSERT_THAT(
            pool.Put(Generation{part.generation()},
                     {SegmentId{0}, part.extent().offset(), part.extent().length()}, part.key()),
            IsOk());
      }
    }
    if (line.way != "master>node") continue;
    const auto message = Parse<v1::MasterMessage>(line);
    for (const uint64_t one : message.command().free().generations()) {
      freed.push_back(Generation{one});
    }
    carry_out(link.OnMessage(message, now_));
  }
  EXPECT_EQ(link.state(), storage_node::LinkState::kLive);
  EXPECT_EQ(link.term(), Term{kTerm});
  ASSERT_THAT(freed, SizeIs(1));
  const auto inventory = pool.Inventory();
  ASSERT_THAT(inventory, SizeIs(1));
  EXPECT_NE(inventory[0].generation, freed[0]);
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].status().code(), 0);
}

// Answers each call with what was answered then.
class ReplayedStub final : public client::MasterStub {
 public:
  explicit ReplayedStub(std::function<std::optional<Line>(const std::string& method)> next)
      : next_(std::move(next)) {}
#define MOONPOOL_REPLAYED_CALL(Method) MOONPOOL_REPLAYED_ANSWER(Method, v1::Method##Response)
#define MOONPOOL_REPLAYED_PLACES(Method) MOONPOOL_REPLAYED_ANSWER(Method, Method##Answer)
#define MOONPOOL_REPLAYED_ANSWER(Method, AnswerType)                                           \
  absl::StatusOr<AnswerType> Method(const v1::Method##Request&, const CallContext&) override { \
    return As<AnswerType>(Answer<v1::Method##Response>(#Method));                              \
  }
  MOONPOOL_REPLAYED_CALL(OpenNamespace)
  MOONPOOL_REPLAYED_PLACES(StartPuts)
  MOONPOOL_REPLAYED_PLACES(CommitPuts)
  MOONPOOL_REPLAYED_CALL(AbortPuts)
  MOONPOOL_REPLAYED_PLACES(Locate)
  MOONPOOL_REPLAYED_PLACES(MatchPrefix)
  MOONPOOL_REPLAYED_CALL(Exists)
  MOONPOOL_REPLAYED_CALL(Remove)
  MOONPOOL_REPLAYED_CALL(ListObjects)
#undef MOONPOOL_REPLAYED_CALL
#undef MOONPOOL_REPLAYED_PLACES
#undef MOONPOOL_REPLAYED_ANSWER

 private:
  template <typename Response>
  absl::StatusOr<Response> Answer(const std::string& method) {
    const std::optional<Line> line = next_(method);
    Response response;
    if (!line.has_value() || !response.ParseFromString(line->bytes)) {
      return absl::InternalError(absl::StrCat("there was no ", method, " then"));
    }
    return response;
  }
  const std::function<std::optional<Line>(const std::string& method)> next_;
};

// Clients, one connection each, in the order in which they came.
class ReplayedNode {
 public:
  explicit ReplayedNode(std::vector<Line> lines)
      : lines_(std::move(lines)), clients_(ClientsIn(lines_)) {
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto any = transport::ParseNumericAddress("127.0.0.1:0");
    EXPECT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&any->storage), any->length), 0);
    EXPECT_EQ(listen(listening, 8), 0);
    address_ = transport::LocalAddress(listening).ToString();
    listener_ = std::make_unique<transport::RawListener>(listening, [this](int fd) { Play(fd); });
  }
  const std::string& address() const { return address_; }

 private:
  void Play(int fd) {
    const size_t number = connections_++;
    if (number >= clients_.size()) return;
    HostilePeer peer(dup(fd));
    for (const Line& line : lines_) {
      if (line.what != "bytes") continue;
      if (line.way == clients_[number] + ">node") {
        std::string request(line.bytes.size(), '\0');
        if (!TakeAll(peer, &request)) return;
      } else if (line.way == "node>" + clients_[number]) {
        peer.Send(line.bytes);
      }
    }
    std::string end(1, '\0');
    TakeAll(peer, &end);  // until it hangs up
  }

  const std::vector<Line> lines_;
  const std::vector<std::string> clients_;
  std::string address_;
  std::atomic<size_t> connections_{0};
  std::unique_ptr<transport::RawListener> listener_;
};

TEST_P(OtherRelease, ItsMastersAndNodesServeClients) {
  const std::vector<Line> lines = Lines();
  ReplayedNode node(lines);
  std::map<std::string, size_t> at;  // by method
  ReplayedStub stub([&](const std::string& method) -> std::optional<Line> {
    for (size_t& i = at[method]; i < lines.size();) {
      const Line& line = lines[i++];
      if (line.way == "master>client" && line.what == method) return line;
    }
    return std::nullopt;
  });
  transport::PollWaiter waiter(clock_);
  const auto tcp = transport::NewTcpTransport({.streams = 1}, clock_);
  RedirectedTransport redirected(*tcp, node.address());
  client::CoreClient first(stub, waiter, Logger::Null(), OptionsOf(1, redirected));
  EXPECT_THAT(Write(first), IsOk());
  client::CoreClient second(stub, waiter, Logger::Null(), OptionsOf(2, redirected));
  EXPECT_THAT(ReadAndRemove(second), IsOk());
}

INSTANTIATE_TEST_SUITE_P(All, OtherRelease,
                         ::testing::Values(Release{.recording = "wire_1_2.rec", .is_later = false},
                                           Release{.recording = "wire_1_3.rec", .is_later = false},
                                           Release{.recording = "wire_1_3.rec", .is_later = true}),
                         [](const auto& release) {
                           return release.param.is_later
                                      ? std::string("Later")
                                      : std::string(release.param.recording, strlen("wire_1_2"));
                         });

}  // namespace
}  // namespace moonpool::versions
