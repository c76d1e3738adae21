#include "master/service/server.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/host_port.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "master/service/call_queues.h"
#include "master/service/client_service.h"
#include "master/service/event_service.h"
#include "master/service/meta_writer.h"
#include "master/service/metrics.h"
#include "master/service/session_service.h"
#include "master/service/shared_handlers.h"

namespace moonpool::master {
namespace {

constexpr int kMaxMetadataBytes = 16 << 10;

int ToMs(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

void SetLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("master");
  quota.Resize(options.memory_bytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // A second master on the same port is a mistake, not load balancing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ToMs(options.keepalive_interval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ToMs(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             ToMs(options.keepalive_interval / 2));
}

// More than one pays only where there are processors for clients and nodes as well.
size_t CallThreads(const ServerOptions& options) {
  if (options.call_threads > 0) return options.call_threads;
  return std::clamp<size_t>(std::thread::hardware_concurrency() / 4, 1, 4);
}

// gRPC writes several lines of its own for a port that is taken; our caller writes one.
class QuietGrpcLog {
 public:
  QuietGrpcLog() {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  ~QuietGrpcLog() { gpr_set_log_function(nullptr); }
};

}  // namespace

class MasterServer::Edge {
 public:
  Edge(const HandlersOptions& options, Mastership mastership, const Dependencies& with)
      : with_(with),
        metrics_(with.registry),
        writer_(with.clock, with.logger, with.registry),
        handlers_(mastership, options, with.clock, metrics_, writer_),
        client_(ServiceContext{handlers_, with.clock}, arenas_, with.registry),
        operator_(ServiceContext{handlers_, with.clock}, arenas_, with.registry),
        watch_(ServiceContext{handlers_, with.clock}, with.registry),
        session_(handlers_, with.clock, with.registry, with.logger) {}

  void ServeAlone(std::unique_ptr<Core> core, std::unique_ptr<MetaStore> store) {
    // A reign like any other, but for its lease.
    handlers_.leadership().Begin(kReignAlone, absl::InfiniteFuture());
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      reigns.OnElection({.kind = ElectionEvent::Kind::kLeader, .reign = kReignAlone}, now);
      reigns.Begin(kReignAlone, std::move(store), std::move(core), now);
    });
  }

  void StandForElection(CandidacyOptions options, Etcd& etcd) {
    candidacy_ = std::make_unique<Candidacy>(
        std::move(options), etcd, handlers_,
        Candidacy::Dependencies{with_.clock, with_.registry, with_.logger});
    candidacy_->Start();
  }

  // The port that was bound.
  absl::StatusOr<int> Start(const ServerOptions& options) {
    grpc::ServerBuilder builder;
    SetLimits(options, builder);
    int port = 0;
    builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(client_.service());
    builder.RegisterService(operator_.service());
    builder.RegisterService(watch_.service());
    builder.RegisterService(session_.service());
    queues_ = std::make_unique<CallQueues>(builder, CallThreads(options));
    {
      const QuietGrpcLog quiet;
      server_ = builder.BuildAndStart();
    }
    if (server_ == nullptr || port == 0) {
      const QuietGrpcLog quiet;  // it also says that queues go before their server
      server_ = nullptr;
      queues_ = nullptr;
      return MakeError(
          absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
          absl::StrCat("cannot listen on ", options.listen),
          {.hint = "another process has the port, or this host has no such address: choose "
                   "with --listen"});
    }
    handlers_.Start();
    queues_->Start([this](CallQueues::Queue& queue) {
      client_.Serve(queue);
      operator_.Serve(queue);
      watch_.Serve(queue);
      session_.Serve(queue);
    });
    return port;
  }

  void Stop(absl::Duration timeout) {
    if (server_ == nullptr) return;
    if (candidacy_ != nullptr) candidacy_->Stop();
    handlers_.Run([](Reigns& reigns, absl::Time now) { reigns.Shutdown(now); });
    server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
    server_->Wait();
    queues_->Stop();
    handlers_.Stop();
    server_ = nullptr;  // what ends a call needs it
  }

  absl::StatusOr<std::vector<std::string>> ServingNodes() {
    v1::ListNodesRequest request;
    request.mutable_version()->set_major(kWireMajor);
    absl::StatusOr<std::vector<std::string>> names = std::vector<std::string>();
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      const absl::StatusOr<Reigns::Admission> admission = reigns.Admit(now);
      if (!admission.ok()) {
        names = admission.status();
        return;
      }
      // Answered before it returns.
      v1::ListNodesResponse response;
      absl::Status answer;
      admission->handlers->ListNodes(
          request, now, {&response, [&](absl::Status status) { answer = std::move(status); }});
      if (!answer.ok()) {
        names = answer;
        return;
      }
      for (const v1::NodeStatus& node : response.nodes()) {
        if (node.up() && node.inventory_complete()) names->push_back(node.address().name());
      }
    });
    return names;
  }

  Health health() const {
    if (handlers_.is_deposed()) {
      return {.is_healthy = false,
              .text =
                  "another master has taken over the durable state: stop that one, and restart "
                  "this one"};
    }
    if (candidacy_ != nullptr) return candidacy_->health();
    return {.is_healthy = true, .text = "serving"};
  }

 private:
  const Dependencies with_;
  ServiceMetrics metrics_;
  MetaWriter writer_;
  SharedHandlers handlers_;
  std::unique_ptr<Candidacy> candidacy_;
  ArenaPool arenas_;
  ClientService client_;
  OperatorService operator_;
  WatchService watch_;
  SessionService session_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
};

MasterServer::MasterServer(ServerOptions options, const HandlersOptions& handlers,
                           Mastership mastership, Dependencies dependencies)
    : options_(std::move(options)),
      logger_(dependencies.logger),
      edge_(std::make_unique<Edge>(handlers, mastership, dependencies)) {}

MasterServer::~MasterServer() { Stop(); }

void MasterServer::ServeAlone(std::unique_ptr<Core> core, std::unique_ptr<MetaStore> store) {
  edge_->ServeAlone(std::move(core), std::move(store));
}

void MasterServer::StandForElection(CandidacyOptions options, Etcd& etcd) {
  edge_->StandForElection(std::move(options), etcd);
}

absl::Status MasterServer::Start() {
  ASSIGN_OR_RETURN(HostPort address, ParseHostPort(options_.listen));
  ASSIGN_OR_RETURN(const int port, edge_->Start(options_));
  address.port = static_cast<uint16_t>(port);
  address_ = address.ToString();
  is_serving_ = true;
  logger_.Info("master serving", {{"address", address_}});
  return absl::OkStatus();
}

void MasterServer::Stop() {
  if (!is_serving_.exchange(false)) return;
  logger_.Info("master stopping", {{"address", address_}});
  edge_->Stop(options_.stop_timeout);
}

absl::StatusOr<std::vector<std::string>> MasterServer::ServingNodes() {
  return edge_->ServingNodes();
}

Health MasterServer::health() const {
  if (is_serving_) return edge_->health();
  return {.is_healthy = false, .text = "not serving"};
}

}  // namespace moonpool::master
