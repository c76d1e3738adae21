// The other side of grpc_echo.h, a process of its own.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "cli/control_bench/grpc_echo.h"

namespace moonpool::cli {
namespace {

// One call, from its arrival to its answer. Each step is told by the queue with this as its tag.
class EchoCall {
 public:
  EchoCall(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue,
           const grpc::ByteBuffer& answer)
      : service_(service), queue_(queue), answer_(answer) {
    service.RequestCall(&context_, &stream_, &queue, &queue, this);
  }

  void Happen(bool is_ok) {
    switch (is_ok ? step_++ : kOver) {
      case kArrived: new EchoCall(service_, queue_, answer_); return stream_.Read(&request_, this);
      case kRead:
        return stream_.WriteAndFinish(answer_, grpc::WriteOptions(), grpc::Status::OK, this);
      default: delete this;
    }
  }

 private:
  enum Step { kArrived, kRead, kOver };

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  const grpc::ByteBuffer& answer_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer request_;
  int step_ = kArrived;
};

}  // namespace

int RunEchoServer() {
  const std::string bytes((std::istreambuf_iterator<char>(std::cin)),
                          std::istreambuf_iterator<char>());
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer answer(&slice, 1);
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::printf("%s127.0.0.1:%d\n", kEchoReadyPrefix, port);
  std::fflush(stdout);
  new EchoCall(service, *queue, answer);
  void* tag = nullptr;
  bool is_ok = false;
  while (queue->Next(&tag, &is_ok)) static_cast<EchoCall*>(tag)->Happen(is_ok);
  return 0;
}

}  // namespace moonpool::cli
