#include "master/service/client_service.h"

namespace moonpool::master {

ClientService::ClientService(const ServiceContext& context, metrics::Registry& registry)
    : context_(context),
      open_namespace_(registry, "OpenNamespace"),
      start_puts_(registry, "StartPuts"),
      commit_puts_(registry, "CommitPuts"),
      abort_puts_(registry, "AbortPuts"),
      locate_(registry, "Locate"),
      match_prefix_(registry, "MatchPrefix"),
      exists_(registry, "Exists"),
      remove_(registry, "Remove"),
      list_objects_(registry, "ListObjects") {
  // Those of batches.
  SetMessageAllocatorFor_StartPuts(&start_puts_messages_);
  SetMessageAllocatorFor_CommitPuts(&commit_puts_messages_);
  SetMessageAllocatorFor_Locate(&locate_messages_);
  SetMessageAllocatorFor_MatchPrefix(&match_prefix_messages_);
  SetMessageAllocatorFor_Exists(&exists_messages_);
  SetMessageAllocatorFor_Remove(&remove_messages_);
}

grpc::ServerUnaryReactor* ClientService::OpenNamespace(Context*,
                                                       const v1::OpenNamespaceRequest* request,
                                                       v1::OpenNamespaceResponse* response) {
  return UnaryReactor<v1::OpenNamespaceResponse>::Start(
      context_, open_namespace_, &Handlers::OpenNamespace, request, response);
}

grpc::ServerUnaryReactor* ClientService::StartPuts(Context*, const v1::StartPutsRequest* request,
                                                   v1::StartPutsResponse* response) {
  return UnaryReactor<v1::StartPutsResponse>::Start(context_, start_puts_, &Handlers::StartPuts,
                                                    request, response);
}

grpc::ServerUnaryReactor* ClientService::CommitPuts(Context*, const v1::CommitPutsRequest* request,
                                                    v1::CommitPutsResponse* response) {
  return UnaryReactor<v1::CommitPutsResponse>::Start(context_, commit_puts_, &Handlers::CommitPuts,
                                                     request, response);
}

grpc::ServerUnaryReactor* ClientService::AbortPuts(Context*, const v1::AbortPutsRequest* request,
                                                   v1::AbortPutsResponse* response) {
  return UnaryReactor<v1::AbortPutsResponse>::Start(context_, abort_puts_, &Handlers::AbortPuts,
                                                    request, response);
}

grpc::ServerUnaryReactor* ClientService::Locate(Context*, const v1::LocateRequest* request,
                                                v1::LocateResponse* response) {
  return UnaryReactor<v1::LocateResponse>::Start(context_, locate_, &Handlers::Locate, request,
                                                 response);
}

grpc::ServerUnaryReactor* ClientService::MatchPrefix(Context*,
                                                     const v1::MatchPrefixRequest* request,
                                                     v1::MatchPrefixResponse* response) {
  return UnaryReactor<v1::MatchPrefixResponse>::Start(context_, match_prefix_,
                                                      &Handlers::MatchPrefix, request, response);
}

grpc::ServerUnaryReactor* ClientService::Exists(Context*, const v1::ExistsRequest* request,
                                                v1::ExistsResponse* response) {
  return UnaryReactor<v1::ExistsResponse>::Start(context_, exists_, &Handlers::Exists, request,
                                                 response);
}

grpc::ServerUnaryReactor* ClientService::Remove(Context*, const v1::RemoveRequest* request,
                                                v1::RemoveResponse* response) {
  return UnaryReactor<v1::RemoveResponse>::Start(context_, remove_, &Handlers::Remove, request,
                                                 response);
}

grpc::ServerUnaryReactor* ClientService::ListObjects(Context*,
                                                     const v1::ListObjectsRequest* request,
                                                     v1::ListObjectsResponse* response) {
  return UnaryReactor<v1::ListObjectsResponse>::Start(context_, list_objects_,
                                                      &Handlers::ListObjects, request, response);
}

OperatorService::OperatorService(const ServiceContext& context, metrics::Registry& registry)
    : context_(context),
      get_status_(registry, "GetStatus"),
      list_nodes_(registry, "ListNodes"),
      why_(registry, "Why"),
      forget_node_(registry, "ForgetNode"),
      drain_node_(registry, "DrainNode") {}

grpc::ServerUnaryReactor* OperatorService::GetStatus(Context*, const v1::GetStatusRequest* request,
                                                     v1::GetStatusResponse* response) {
  return UnaryReactor<v1::GetStatusResponse>::Start(context_, get_status_, &Handlers::GetStatus,
                                                    request, response);
}

grpc::ServerUnaryReactor* OperatorService::ListNodes(Context*, const v1::ListNodesRequest* request,
                                                     v1::ListNodesResponse* response) {
  return UnaryReactor<v1::ListNodesResponse>::Start(context_, list_nodes_, &Handlers::ListNodes,
                                                    request, response);
}

grpc::ServerUnaryReactor* OperatorService::Why(Context*, const v1::WhyRequest* request,
                                               v1::WhyResponse* response) {
  return UnaryReactor<v1::WhyResponse>::Start(context_, why_, &Handlers::Why, request, response);
}

grpc::ServerUnaryReactor* OperatorService::ForgetNode(Context*,
                                                      const v1::ForgetNodeRequest* request,
                                                      v1::ForgetNodeResponse* response) {
  return UnaryReactor<v1::ForgetNodeResponse>::Start(context_, forget_node_, &Handlers::ForgetNode,
                                                     request, response);
}

grpc::ServerUnaryReactor* OperatorService::DrainNode(Context*, const v1::DrainNodeRequest* request,
                                                     v1::DrainNodeResponse* response) {
  return UnaryReactor<v1::DrainNodeResponse>::Start(context_, drain_node_, &Handlers::DrainNode,
                                                    request, response);
}

}  // namespace moonpool::master
