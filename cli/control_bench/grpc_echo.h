// What gRPC allows: a server in this process that answers every call with the same bytes, without
// looking at the request, and a client that does not look at the answer.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonpool::cli {

// Thread-safe.
class GrpcEchoServer {
 public:
  static absl::StatusOr<std::unique_ptr<GrpcEchoServer>> Start(std::string answer);
  ~GrpcEchoServer();
  const std::string& address() const { return address_; }

 private:
  class Service;
  GrpcEchoServer();
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// One connection of its own. Used by one thread.
class GrpcEchoClient {
 public:
  GrpcEchoClient(const std::string& address, const std::string& request);
  ~GrpcEchoClient();
  absl::Status Call();

 private:
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::CompletionQueue queue_;
  const grpc::ByteBuffer request_;
};

// A channel that shares its connection with no other one.
std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address);

}  // namespace moonpool::cli
