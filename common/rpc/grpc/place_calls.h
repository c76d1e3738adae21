// The calls of MasterService whose answers are taken up without messages (place_answers.h).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>  // how messages go into calls
#include <grpcpp/support/async_unary_call.h>

#include <memory>

#include "common/rpc/grpc/place_answer_traits.h"
#include "common/rpc/place_answers.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool {

// Beside the generated stub, and like it. Thread-safe. An answer that cannot be read ends a call
// with OK and its tag with false, as gRPC has it for all messages.
class PlaceCalls {
 public:
  template <typename Answer>
  using Reader = std::unique_ptr<grpc::ClientAsyncResponseReader<Answer>>;

  explicit PlaceCalls(const std::shared_ptr<grpc::Channel>& channel)
      : start_puts_(channel), commit_puts_(channel), locate_(channel), match_prefix_(channel) {}

  Reader<StartPutsAnswer> AsyncStartPuts(grpc::ClientContext* context,
                                         const v1::StartPutsRequest& request,
                                         grpc::CompletionQueue* queue) {
    return Start(start_puts_, "/moonpool.v1.MasterService/StartPuts", context, request, queue);
  }
  Reader<CommitPutsAnswer> AsyncCommitPuts(grpc::ClientContext* context,
                                           const v1::CommitPutsRequest& request,
                                           grpc::CompletionQueue* queue) {
    return Start(commit_puts_, "/moonpool.v1.MasterService/CommitPuts", context, request, queue);
  }
  Reader<LocateAnswer> AsyncLocate(grpc::ClientContext* context, const v1::LocateRequest& request,
                                   grpc::CompletionQueue* queue) {
    return Start(locate_, "/moonpool.v1.MasterService/Locate", context, request, queue);
  }
  Reader<MatchPrefixAnswer> AsyncMatchPrefix(grpc::ClientContext* context,
                                             const v1::MatchPrefixRequest& request,
                                             grpc::CompletionQueue* queue) {
    return Start(match_prefix_, "/moonpool.v1.MasterService/MatchPrefix", context, request, queue);
  }

 private:
  template <typename Request, typename Answer>
  using Stub = grpc::TemplatedGenericStub<Request, Answer>;

  template <typename Request, typename Answer>
  static Reader<Answer> Start(Stub<Request, Answer>& stub, const char* method,
                              grpc::ClientContext* context, const Request& request,
                              grpc::CompletionQueue* queue) {
    Reader<Answer> reader = stub.PrepareUnaryCall(context, method, request, queue);
    reader->StartCall();
    return reader;
  }

  Stub<v1::StartPutsRequest, StartPutsAnswer> start_puts_;
  Stub<v1::CommitPutsRequest, CommitPutsAnswer> commit_puts_;
  Stub<v1::LocateRequest, LocateAnswer> locate_;
  Stub<v1::MatchPrefixRequest, MatchPrefixAnswer> match_prefix_;
};

}  // namespace moonpool
