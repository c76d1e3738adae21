// MasterService and AdminService on the wire.
#pragma once

#include "common/metrics/metrics.h"
#include "master/service/arena_messages.h"
#include "master/service/metrics.h"
#include "master/service/unary_reactor.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::master {

class ClientService final : public v1::MasterService::CallbackService {
 public:
  ClientService(const ServiceContext& context, metrics::Registry& registry);

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* OpenNamespace(Context*, const v1::OpenNamespaceRequest*,
                         v1::OpenNamespaceResponse*) override;
  Reactor* StartPuts(Context*, const v1::StartPutsRequest*, v1::StartPutsResponse*) override;
  Reactor* CommitPuts(Context*, const v1::CommitPutsRequest*, v1::CommitPutsResponse*) override;
  Reactor* AbortPuts(Context*, const v1::AbortPutsRequest*, v1::AbortPutsResponse*) override;
  Reactor* Locate(Context*, const v1::LocateRequest*, v1::LocateResponse*) override;
  Reactor* MatchPrefix(Context*, const v1::MatchPrefixRequest*, v1::MatchPrefixResponse*) override;
  Reactor* Exists(Context*, const v1::ExistsRequest*, v1::ExistsResponse*) override;
  Reactor* Remove(Context*, const v1::RemoveRequest*, v1::RemoveResponse*) override;
  Reactor* ListObjects(Context*, const v1::ListObjectsRequest*, v1::ListObjectsResponse*) override;

 private:
  const ServiceContext context_;
  ArenaPool arenas_;
  ArenaMessages<v1::StartPutsRequest, v1::StartPutsResponse> start_puts_messages_{arenas_};
  ArenaMessages<v1::CommitPutsRequest, v1::CommitPutsResponse> commit_puts_messages_{arenas_};
  ArenaMessages<v1::LocateRequest, v1::LocateResponse> locate_messages_{arenas_};
  ArenaMessages<v1::MatchPrefixRequest, v1::MatchPrefixResponse> match_prefix_messages_{arenas_};
  ArenaMessages<v1::ExistsRequest, v1::ExistsResponse> exists_messages_{arenas_};
  ArenaMessages<v1::RemoveRequest, v1::RemoveResponse> remove_messages_{arenas_};
  RpcMetrics open_namespace_;
  RpcMetrics start_puts_;
  RpcMetrics commit_puts_;
  RpcMetrics abort_puts_;
  RpcMetrics locate_;
  RpcMetrics match_prefix_;
  RpcMetrics exists_;
  RpcMetrics remove_;
  RpcMetrics list_objects_;
};

class OperatorService final : public v1::AdminService::CallbackService {
 public:
  OperatorService(const ServiceContext& context, metrics::Registry& registry);

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* GetStatus(Context*, const v1::GetStatusRequest*, v1::GetStatusResponse*) override;
  Reactor* ListNodes(Context*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override;
  Reactor* Why(Context*, const v1::WhyRequest*, v1::WhyResponse*) override;
  Reactor* ForgetNode(Context*, const v1::ForgetNodeRequest*, v1::ForgetNodeResponse*) override;
  Reactor* DrainNode(Context*, const v1::DrainNodeRequest*, v1::DrainNodeResponse*) override;

 private:
  const ServiceContext context_;
  RpcMetrics get_status_;
  RpcMetrics list_nodes_;
  RpcMetrics why_;
  RpcMetrics forget_node_;
  RpcMetrics drain_node_;
};

}  // namespace moonpool::master
