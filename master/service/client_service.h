// MasterService and AdminService on the wire.
#pragma once

#include "common/metrics/metrics.h"
#include "common/rpc/grpc/encoded_traits.h"
#include "master/service/arena_pool.h"
#include "master/service/call_queues.h"
#include "master/service/unary_call.h"
#include "moonpool/v1/admin.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::master {

// The generated service, and beside it the calls whose messages are not made into objects.
class ClientWire final : public v1::MasterService::AsyncService {
 public:
  template <typename Request, typename Response>
  using Accept = void(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                      grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);

  Accept<Encoded<v1::StartPutsRequest>, Encoded<v1::StartPutsResponse>> RequestStartPuts;
  Accept<Encoded<v1::LocateRequest>, Encoded<v1::LocateResponse>> RequestLocate;
  Accept<Encoded<v1::MatchPrefixRequest>, Encoded<v1::MatchPrefixResponse>> RequestMatchPrefix;
};

class ClientService {
 public:
  ClientService(const ServiceContext& context, ArenaPool& arenas, metrics::Registry& registry);

  grpc::Service* service() { return &service_; }
  void Serve(CallQueues::Queue& queue);

 private:
  using Wire = ClientWire;

  Wire service_;
  UnaryMethod<&Wire::RequestOpenNamespace, &Handlers::OpenNamespace> open_namespace_;
  UnaryMethod<&Wire::RequestStartPuts, &Handlers::StartPuts> start_puts_;
  UnaryMethod<&Wire::RequestCommitPuts, &Handlers::CommitPuts> commit_puts_;
  UnaryMethod<&Wire::RequestAbortPuts, &Handlers::AbortPuts> abort_puts_;
  UnaryMethod<&Wire::RequestLocate, &Handlers::Locate> locate_;
  UnaryMethod<&Wire::RequestMatchPrefix, &Handlers::MatchPrefix> match_prefix_;
  UnaryMethod<&Wire::RequestExists, &Handlers::Exists> exists_;
  UnaryMethod<&Wire::RequestRemove, &Handlers::Remove> remove_;
  UnaryMethod<&Wire::RequestListObjects, &Handlers::ListObjects> list_objects_;
};

class OperatorService {
 public:
  OperatorService(const ServiceContext& context, ArenaPool& arenas, metrics::Registry& registry);

  grpc::Service* service() { return &service_; }
  void Serve(CallQueues::Queue& queue);

 private:
  using Wire = v1::AdminService::AsyncService;

  Wire service_;
  UnaryMethod<&Wire::RequestGetStatus, &Handlers::GetStatus> get_status_;
  UnaryMethod<&Wire::RequestListNodes, &Handlers::ListNodes> list_nodes_;
  UnaryMethod<&Wire::RequestWhy, &Handlers::Why> why_;
  UnaryMethod<&Wire::RequestForgetNode, &Handlers::ForgetNode> forget_node_;
  UnaryMethod<&Wire::RequestDrainNode, &Handlers::DrainNode> drain_node_;
};

}  // namespace moonpool::master
