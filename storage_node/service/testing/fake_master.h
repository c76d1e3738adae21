// A master over real gRPC that does what a test tells it to.
//
//   FakeMaster master;
//   ... a node with {master.address()} ...
//   EXPECT_TRUE(master.WaitFor([](const v1::NodeMessage& m) { return m.has_heartbeat(); }));
//   master.Send(command);
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/version.h"
#include "moonpool/v1/membership.grpc.pb.h"

namespace moonpool::storage_node {

// Registers everybody in `term` and answers heartbeats. Thread-safe.
class FakeMaster final : public v1::MembershipService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::MasterMessage, v1::NodeMessage>;

  explicit FakeMaster(uint32_t term = 1, uint64_t session_timeout_ms = 10'000)
      : term_(term), session_timeout_ms_(session_timeout_ms) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeMaster() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Whether such a message came, or comes within ten seconds.
  bool WaitFor(const std::function<bool(const v1::NodeMessage&)>& matches) {
    return WaitForCount(1, matches);
  }
  bool WaitForCount(int count, const std::function<bool(const v1::NodeMessage&)>& matches,
                    absl::Duration within = absl::Seconds(10)) {
    const auto has_come = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::count_if(received_.begin(), received_.end(), matches) >= count;
    };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&has_come), within);
  }

  // Over the present session.
  void Send(const v1::MasterMessage& message) {
    absl::MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->Write(message);
  }
  void set_answers_heartbeats(bool answers) {
    absl::MutexLock lock(&mutex_);
    answers_heartbeats_ = answers;
  }
  // From now on who registers is refused: another one leads, there.
  void Refuse(const std::string& leader) { SetRole({.leads = false, .leader = leader}); }
  // Or not answered.
  void Ignore() { SetRole({.leads = false, .leader = std::nullopt}); }
  void Lead() { SetRole({}); }
  // Cuts the present session off.
  void EndSession() {
    absl::MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override {
    {
      absl::MutexLock lock(&mutex_);
      stream_ = stream;
      context_ = context;
    }
    v1::NodeMessage message;
    while (stream->Read(&message)) Answer(message, *stream);
    absl::MutexLock lock(&mutex_);
    if (stream_ == stream) {
      stream_ = nullptr;
      context_ = nullptr;
    }
    return grpc::Status::OK;
  }

 private:
  struct Role {
    bool leads = true;
    std::optional<std::string> leader = {};
  };
  void SetRole(const Role& role) {
    absl::MutexLock lock(&mutex_);
    role_ = role;
  }

  void Answer(const v1::NodeMessage& message, Stream& stream) {
    v1::MasterMessage answer;
    absl::MutexLock lock(&mutex_);
    received_.push_back(message);
    if (message.has_register_() && !role_.leads) {
      if (!role_.leader.has_value()) return;
      StatusToProto(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                              "another one leads", {.leader = *role_.leader}),
                    answer.mutable_refused()->mutable_status());
      stream.Write(answer);
    } else if (message.has_register_()) {
      v1::Registered& registered = *answer.mutable_registered();
      registered.mutable_version()->set_major(kWireMajor);
      registered.mutable_version()->set_minor(kWireMinor);
      registered.set_term(term_);
      registered.set_node_id(1);
      registered.set_heartbeat_interval_ms(20);
      registered.set_session_timeout_ms(session_timeout_ms_);
      stream.Write(answer);
    } else if (message.has_heartbeat() && answers_heartbeats_) {
      answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
      stream.Write(answer);
    }
  }

  const uint32_t term_;
  const uint64_t session_timeout_ms_;
  int port_ = 0;
  absl::Mutex mutex_;
  std::vector<v1::NodeMessage> received_ ABSL_GUARDED_BY(mutex_);
  Role role_ ABSL_GUARDED_BY(mutex_);
  bool answers_heartbeats_ ABSL_GUARDED_BY(mutex_) = true;
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace moonpool::storage_node
