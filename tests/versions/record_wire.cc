// Records what today's release says on its wires, for the releases to come: a master, a node and
// two clients in one process, all of them real. Prints the recording.
//
//   build/dev/bin/record-wire > tests/versions/testdata/wire_1_4.rec
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/core_client.h"
#include "common/check.h"
#include "common/log.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "master/handlers/testing/message_done.h"
#include "storage_node/link/master_link.h"
#include "storage_node/pool/testing/test_pool.h"
#include "storage_node/serve/node_target.h"
#include "tests/versions/client_script.h"
#include "tests/versions/recording.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/raw_listener.h"
#include "transport/waiter.h"

namespace moonpool::versions {
namespace {

using transport::ParseNumericAddress;

int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// Between a client and the node: writes down what goes by.
class Tap {
 public:
  Tap(Recording& recording, std::string node) : recording_(recording), node_(std::move(node)) {
    listening_ = Socket();
    const auto any = ParseNumericAddress("127.0.0.1:0");
    MP_CHECK(bind(listening_, reinterpret_cast<const sockaddr*>(&any->storage), any->length) == 0 &&
                 listen(listening_, 8) == 0,
             "no socket");
    address_ = transport::LocalAddress(listening_).ToString();
    listener_ = std::make_unique<transport::RawListener>(listening_, [this](int fd) { Pass(fd); });
  }
  const std::string& address() const { return address_; }

 private:
  void Pass(int client) {
    const std::string name = absl::StrCat("client-", ++connections_);
    const int node = Socket();
    const auto to = ParseNumericAddress(node_);
    MP_CHECK(connect(node, reinterpret_cast<const sockaddr*>(&to->storage), to->length) == 0,
             "no node");
    std::array<pollfd, 2> ends = {pollfd{client, POLLIN, 0}, pollfd{node, POLLIN, 0}};
    while (poll(ends.data(), ends.size(), -1) > 0) {
      const bool is_client = (ends[0].revents & (POLLIN | POLLHUP)) != 0;
      std::array<char, 65536> piece;
      const ssize_t size = recv(is_client ? client : node, piece.data(), piece.size(), 0);
      if (size <= 0) break;
      const absl::string_view bytes(piece.data(), static_cast<size_t>(size));
      recording_.Add(is_client ? name + ">node" : "node>" + name, "bytes", bytes);
      MP_CHECK(send(is_client ? node : client, piece.data(), bytes.size(), MSG_NOSIGNAL) == size,
               "not passed on");
    }
    close(node);
  }

  Recording& recording_;
  const std::string node_;
  int listening_ = -1;
  std::string address_;
  std::atomic<int> connections_{0};
  std::unique_ptr<transport::RawListener> listener_;
};

// Master and node, and time that passes when somebody waits.
class Cluster {
 public:
  explicit Cluster(Recording& recording) : recording_(recording) {
    pool_.index().NoteTerm(Term{1});
    session_ = *handlers_.OpenSession([] {}, now_);
    MP_CHECK(server_->Start().ok(), "no server");
    while (link_.state() != storage_node::LinkState::kLive) Pump();
  }
  ~Cluster() {
    handlers_.CloseSession(*session_, now_);
    server_->Stop();
  }

  std::string node_address() { return server_->address(); }
  master::Handlers& handlers() { return handlers_; }
  absl::Time now() const { return now_; }
  Recording& recording() { return recording_; }

  void Pump() {
    now_ += absl::Milliseconds(5);
    CarryOut(link_.Tick(now_, /*has_room=*/true));
    handlers_.Tick(now_);
    while (std::optional<v1::MasterMessage> message = session_->TakeMessage()) {
      recording_.Add("master>node", message->GetTypeName(), message->SerializeAsString());
      CarryOut(link_.OnMessage(*message, now_));
    }
  }

 private:
  void CarryOut(const storage_node::LinkOutput& out) {
    MP_CHECK(!out.disconnect, "the session ends");
    if (out.connect.has_value()) CarryOut(link_.OnConnected(now_));
    for (const v1::NodeMessage& message : out.send) {
      recording_.Add("node>master", message.GetTypeName(), message.SerializeAsString());
      handlers_.OnNodeMessage(*session_, message, now_);
    }
  }

  Recording& recording_;
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(100);
  SteadyClock clock_;
  metrics::Registry registry_;
  master::Core core_{{}, Term{kTerm}, Random(1)};
  master::Handlers handlers_{core_, {}, now_};
  std::unique_ptr<master::NodeSession> session_;
  storage_node::TestPool pool_;
  storage_node::ServeMetrics serve_metrics_{registry_};
  storage_node::NodeTarget target_{Incarnation{kIncarnation}, pool_.index(), serve_metrics_};
  std::unique_ptr<transport::Server> server_ =
      transport::NewTcpServer(target_, {}, clock_, Logger::Null());
  storage_node::CopyQueue copies_;
  storage_node::LinkMetrics link_metrics_{registry_};
  storage_node::MasterLink link_{{.name = "n1",
                                  .incarnation = Incarnation{kIncarnation},
                                  .host_id = "host-1",
                                  .rack = "rack-1",
                                  .tcp_address = kNodeAddress,
                                  .shm_path = ""},
                                 {.masters = {"master"}},
                                 {pool_.index(), copies_, link_metrics_, Logger::Null()},
                                 Random(1)};
};

// Straight into the handlers.
class RecordedStub final : public client::MasterStub {
 public:
  explicit RecordedStub(Cluster& cluster) : cluster_(cluster) {}

#define MOONPOOL_RECORDED_CALL(Method) MOONPOOL_RECORDED_ANSWER(Method, v1::Method##Response)
#define MOONPOOL_RECORDED_PLACES(Method) MOONPOOL_RECORDED_ANSWER(Method, Method##Answer)
#define MOONPOOL_RECORDED_ANSWER(Method, Answer)                                                   \
  absl::StatusOr<Answer> Method(const v1::Method##Request& request, const CallContext&) override { \
    return As<Answer>(Call<v1::Method##Response>(#Method, request, [&](auto done) {                \
      cluster_.handlers().Method(request, cluster_.now(), std::move(done));                        \
    }));                                                                                           \
  }
  MOONPOOL_RECORDED_CALL(OpenNamespace)
  MOONPOOL_RECORDED_PLACES(StartPuts)
  MOONPOOL_RECORDED_PLACES(CommitPuts)
  MOONPOOL_RECORDED_CALL(AbortPuts)
  MOONPOOL_RECORDED_PLACES(Locate)
  MOONPOOL_RECORDED_PLACES(MatchPrefix)
  MOONPOOL_RECORDED_CALL(Exists)
  MOONPOOL_RECORDED_CALL(Remove)
  MOONPOOL_RECORDED_CALL(ListObjects)
#undef MOONPOOL_RECORDED_CALL
#undef MOONPOOL_RECORDED_PLACES
#undef MOONPOOL_RECORDED_ANSWER

 private:
  template <typename Response, typename Request, typename Start>
  absl::StatusOr<Response> Call(const char* method, const Request& request, Start start) {
    cluster_.recording().Add("client>master", method, request.SerializeAsString());
    std::optional<absl::StatusOr<Response>> answer;
    start(master::MessageDone<Response>{[&answer](const absl::Status& status, Response response) {
      answer = status.ok() ? absl::StatusOr<Response>(std::move(response))
                           : absl::StatusOr<Response>(status);
    }});
    while (!answer.has_value()) cluster_.Pump();
    MP_CHECK(answer->ok(), "a call failed", answer->status().ToString());
    cluster_.recording().Add("master>client", method, (*answer)->SerializeAsString());
    return *answer;
  }

  Cluster& cluster_;
};

void Record() {
  Recording recording;
  {
    Cluster cluster(recording);
    const SteadyClock clock;
    transport::PollWaiter waiter(clock);
    Tap tap(recording, cluster.node_address());
    const auto tcp = transport::NewTcpTransport({.streams = 1}, clock);
    RedirectedTransport redirected(*tcp, tap.address());
    RecordedStub stub(cluster);
    client::CoreClient first(stub, waiter, Logger::Null(), OptionsOf(1, redirected));
    absl::Status status = Write(first);
    MP_CHECK(status.ok(), "write", status.ToString());
    for (int i = 0; i < 4; ++i) cluster.Pump();  // the seals are reported
    client::CoreClient second(stub, waiter, Logger::Null(), OptionsOf(2, redirected));
    status = ReadAndRemove(second);
    MP_CHECK(status.ok(), "read", status.ToString());
    for (int i = 0; i < 400; ++i) cluster.Pump();  // heartbeats go by
  }
  std::fputs(recording.Text().c_str(), stdout);
}

}  // namespace
}  // namespace moonpool::versions

int main() { moonpool::versions::Record(); }
