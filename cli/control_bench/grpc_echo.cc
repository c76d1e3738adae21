#include "cli/control_bench/grpc_echo.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/grpc/status_convert.h"

namespace moonpool::cli {
namespace {

constexpr std::chrono::seconds kCallTimeout{10};

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

class EchoReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit EchoReactor(const grpc::ByteBuffer& answer) : answer_(answer) { StartRead(&request_); }
  void OnReadDone(bool is_ok) override {
    if (is_ok) {
      StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnDone() override { delete this; }

 private:
  const grpc::ByteBuffer answer_;
  grpc::ByteBuffer request_;
};

}  // namespace

class GrpcEchoServer::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(const std::string& answer) : answer_(BufferOf(answer)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new EchoReactor(answer_);
  }

 private:
  const grpc::ByteBuffer answer_;
};

GrpcEchoServer::GrpcEchoServer() = default;

absl::StatusOr<std::unique_ptr<GrpcEchoServer>> GrpcEchoServer::Start(std::string answer) {
  std::unique_ptr<GrpcEchoServer> echo(new GrpcEchoServer());
  echo->service_ = std::make_unique<Service>(answer);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(echo->service_.get());
  echo->server_ = builder.BuildAndStart();
  if (echo->server_ == nullptr || port == 0) {
    return absl::UnavailableError("the echo server did not start");
  }
  echo->address_ = absl::StrCat("127.0.0.1:", port);
  return echo;
}

GrpcEchoServer::~GrpcEchoServer() {
  if (server_ != nullptr) server_->Shutdown();
}

std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

GrpcEchoClient::GrpcEchoClient(const std::string& address, const std::string& request)
    : stub_(OwnChannel(address)), request_(BufferOf(request)) {}

GrpcEchoClient::~GrpcEchoClient() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool is_ok = false;
  while (queue_.Next(&tag, &is_ok)) {
  }
}

absl::Status GrpcEchoClient::Call() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  const auto call = stub_.PrepareUnaryCall(&context, "/echo/Echo", request_, &queue_);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, this);
  void* tag = nullptr;
  bool is_ok = false;
  queue_.Next(&tag, &is_ok);
  return FromGrpc(status);
}

}  // namespace moonpool::cli
