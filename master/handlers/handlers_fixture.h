// A master without a wire for tests: a real core, its handlers, nodes that are scripted, and time
// that moves when told.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/testing/status_matchers.h"
#include "common/version.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "master/handlers/testing/message_done.h"

namespace moonpool::master {

// Where the answer of a call lands.
template <typename Response>
struct Answer {
  int count = 0;
  absl::Status status;
  Response response;

  bool is_there() const { return count == 1; }
  MessageDone<Response> done() {
    response.Clear();
    return {[this](absl::Status s, Response r) {
      ++count;
      status = std::move(s);
      response = std::move(r);
    }};
  }
};

inline void FillVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

class HandlersFixture : public ::testing::Test {
 protected:
  static constexpr uint64_t kMiB = uint64_t{1} << 20;

  // One scripted node and what it was sent.
  struct Node {
    std::string name;
    std::unique_ptr<NodeSession> session;
    int pokes = 0;
    uint32_t id = 0;
    std::vector<v1::MasterMessage> received;

    void Drain() {
      while (std::optional<v1::MasterMessage> message = session->TakeMessage()) {
        if (message->has_registered()) id = message->registered().node_id();
        received.push_back(*std::move(message));
      }
    }
  };

  explicit HandlersFixture(HandlersOptions options = {}, CoreOptions core_options = {})
      : core(std::move(core_options), Term{7}, Random(1)), handlers(core, options, now) {}
  // A master that keeps durable state, after those that left this.
  HandlersFixture(HandlersOptions options, const DurableState& left)
      : core({}, Term{7}, Random(1), left), handlers(core, options, now) {}
  ~HandlersFixture() override {
    for (auto& node : nodes) handlers.CloseSession(*node->session, now);
    nodes.clear();
  }

  void Advance(absl::Duration duration) {
    now += duration;
    handlers.Tick(now);
  }

  // --- Nodes.

  Node& Open(absl::string_view name) {
    nodes.push_back(std::make_unique<Node>());
    Node* node = nodes.back().get();
    node->name = std::string(name);
    auto session = handlers.OpenSession([node] { ++node->pokes; }, now);
    EXPECT_THAT(session, IsOk());
    node->session = *std::move(session);
    return *node;
  }
  void Send(Node& node, const v1::NodeMessage& message) {
    handlers.OnNodeMessage(*node.session, message, now);
    node.Drain();
  }
  v1::NodeMessage RegisterMessage(absl::string_view name, uint64_t capacity_bytes,
                                  uint64_t incarnation = 1) {
    v1::NodeMessage message;
    v1::Register* out = message.mutable_register_();
    FillVersion(out->mutable_version());
    out->set_name(std::string(name));
    out->set_incarnation(incarnation);
    out->set_host_id(absl::StrCat("host-", name));
    out->set_tcp_address("127.0.0.1:1");
    v1::Segment* segment = out->add_segments();
    segment->set_medium("dram");
    segment->set_capacity_bytes(capacity_bytes);
    return message;
  }
  Node& AddNode(absl::string_view name, uint64_t capacity_bytes) {
    Node& node = Open(name);
    Send(node, RegisterMessage(name, capacity_bytes));
    EXPECT_EQ(node.received.size(), 1u);
    v1::NodeMessage complete;
    complete.mutable_inventory()->set_complete(true);
    Send(node, complete);
    return node;
  }
  void ConfirmCommands(Node& node) {
    node.Drain();
    for (const v1::MasterMessage& message : std::exchange(node.received, {})) {
      if (!message.has_command()) continue;
      v1::NodeMessage result;
      result.mutable_command_result()->set_command_id(message.command().command_id());
      Send(node, result);
    }
  }

  // --- The meta store.

  // Ends the write that is due now; false when there is none. What it was is in last_write.
  bool EndWrite(const absl::Status& outcome = absl::OkStatus()) {
    std::optional<MetaBatch> write = handlers.TakeWrite(now);
    if (!write.has_value()) return false;
    last_write = *std::move(write);
    handlers.OnWritten(outcome, now);
    return true;
  }

  // --- Calls.

  template <typename Request>
  Request NewRequest(absl::Duration timeout = absl::Seconds(10)) {
    Request request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_client_id(1);
    request.mutable_header()->set_timeout_ms(
        static_cast<uint64_t>(absl::ToInt64Milliseconds(timeout)));
    return request;
  }
  v1::StartPutsRequest PutRequest(std::vector<std::string> keys, uint64_t size_bytes,
                                  absl::Duration timeout = absl::Seconds(10)) {
    auto request = NewRequest<v1::StartPutsRequest>(timeout);
    request.set_request_id(++last_request_id);
    for (std::string& key : keys) {
      v1::PutKey* put = request.add_puts();
      put->set_key(std::move(key));
      put->set_size_bytes(size_bytes);
    }
    return request;
  }
  template <typename Request>
  Request KeysRequest(std::vector<std::string> keys, absl::Duration timeout = absl::Seconds(10)) {
    auto request = NewRequest<Request>(timeout);
    for (std::string& key : keys) request.add_keys(std::move(key));
    return request;
  }

  v1::Grant Grant(const std::string& key, uint64_t size_bytes) {
    Answer<v1::StartPutsResponse> answer;
    handlers.StartPuts(PutRequest({key}, size_bytes), now, answer.done());
    EXPECT_TRUE(answer.is_there());
    EXPECT_THAT(answer.status, IsOk());
    EXPECT_TRUE(answer.response.results(0).has_grant())
        << answer.response.results(0).ShortDebugString();
    return answer.response.results(0).grant();
  }
  void Commit(const v1::Grant& grant) {
    auto request = NewRequest<v1::CommitPutsRequest>();
    v1::CommitPut* put = request.add_puts();
    put->set_generation(grant.generation());
    put->set_handle(grant.handle());
    Answer<v1::CommitPutsResponse> answer;
    handlers.CommitPuts(request, now, answer.done());
    EXPECT_THAT(answer.status, IsOk());
    EXPECT_EQ(answer.response.results(0).code(), 0)
        << answer.response.results(0).ShortDebugString();
  }
  void Abort(const v1::Grant& grant) {
    auto request = NewRequest<v1::AbortPutsRequest>();
    v1::AbortPut* put = request.add_puts();
    put->set_generation(grant.generation());
    put->set_handle(grant.handle());
    Answer<v1::AbortPutsResponse> answer;
    handlers.AbortPuts(request, now, answer.done());
    EXPECT_THAT(answer.status, IsOk());
  }
  void Put(const std::string& key, uint64_t size_bytes) { Commit(Grant(key, size_bytes)); }

  absl::Time now = absl::FromUnixSeconds(1000);
  Core core;
  Handlers handlers;
  std::vector<std::unique_ptr<Node>> nodes;
  uint64_t last_request_id = 0;
  MetaBatch last_write;
};

// Of one result of a batch.
inline ErrorReason WireReason(const v1::Status& status) {
  return ReasonOf(StatusFromProto(status));
}

}  // namespace moonpool::master
