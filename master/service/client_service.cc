#include "master/service/client_service.h"

#include <google/protobuf/descriptor.h>

#include "common/check.h"

namespace moonpool::master {
namespace {

// gRPC counts a service's methods as its file does.
int IndexOf(const char* method) {
  const auto* const service =
      v1::LocateRequest::descriptor()->file()->FindServiceByName("MasterService");
  const auto* const found = service == nullptr ? nullptr : service->FindMethodByName(method);
  MP_CHECK(found != nullptr, "master.proto has no such method", method);
  return found->index();
}

}  // namespace

void ClientWire::RequestStartPuts(
    grpc::ServerContext* context, Encoded<v1::StartPutsRequest>* request,
    grpc::ServerAsyncResponseWriter<Encoded<v1::StartPutsResponse>>* response,
    grpc::CompletionQueue* calls, grpc::ServerCompletionQueue* accepting, void* tag) {
  static const int kIndex = IndexOf("StartPuts");
  RequestAsyncUnary(kIndex, context, request, response, calls, accepting, tag);
}

void ClientWire::RequestLocate(
    grpc::ServerContext* context, Encoded<v1::LocateRequest>* request,
    grpc::ServerAsyncResponseWriter<Encoded<v1::LocateResponse>>* response,
    grpc::CompletionQueue* calls, grpc::ServerCompletionQueue* accepting, void* tag) {
  static const int kIndex = IndexOf("Locate");
  RequestAsyncUnary(kIndex, context, request, response, calls, accepting, tag);
}

void ClientWire::RequestMatchPrefix(
    grpc::ServerContext* context, Encoded<v1::MatchPrefixRequest>* request,
    grpc::ServerAsyncResponseWriter<Encoded<v1::MatchPrefixResponse>>* response,
    grpc::CompletionQueue* calls, grpc::ServerCompletionQueue* accepting, void* tag) {
  static const int kIndex = IndexOf("MatchPrefix");
  RequestAsyncUnary(kIndex, context, request, response, calls, accepting, tag);
}

ClientService::ClientService(const ServiceContext& context, ArenaPool& arenas,
                             metrics::Registry& registry)
    : open_namespace_(service_, context, arenas, registry, "OpenNamespace"),
      start_puts_(service_, context, arenas, registry, "StartPuts"),
      commit_puts_(service_, context, arenas, registry, "CommitPuts"),
      abort_puts_(service_, context, arenas, registry, "AbortPuts"),
      locate_(service_, context, arenas, registry, "Locate"),
      match_prefix_(service_, context, arenas, registry, "MatchPrefix"),
      exists_(service_, context, arenas, registry, "Exists"),
      remove_(service_, context, arenas, registry, "Remove"),
      list_objects_(service_, context, arenas, registry, "ListObjects") {}

void ClientService::Serve(CallQueues::Queue& queue) {
  open_namespace_.Serve(queue);
  start_puts_.Serve(queue);
  commit_puts_.Serve(queue);
  abort_puts_.Serve(queue);
  locate_.Serve(queue);
  match_prefix_.Serve(queue);
  exists_.Serve(queue);
  remove_.Serve(queue);
  list_objects_.Serve(queue);
}

OperatorService::OperatorService(const ServiceContext& context, ArenaPool& arenas,
                                 metrics::Registry& registry)
    : get_status_(service_, context, arenas, registry, "GetStatus"),
      list_nodes_(service_, context, arenas, registry, "ListNodes"),
      why_(service_, context, arenas, registry, "Why"),
      forget_node_(service_, context, arenas, registry, "ForgetNode"),
      drain_node_(service_, context, arenas, registry, "DrainNode") {}

void OperatorService::Serve(CallQueues::Queue& queue) {
  get_status_.Serve(queue);
  list_nodes_.Serve(queue);
  why_.Serve(queue);
  forget_node_.Serve(queue);
  drain_node_.Serve(queue);
}

}  // namespace moonpool::master
