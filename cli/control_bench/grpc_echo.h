// A bare gRPC server that answers every call with the same bytes, and a client for it: what a call
// of that size costs when nobody thinks about it. The server is a process of its own, as a master
// is, and has one thread that waits on one completion queue, which is the fastest that gRPC offers.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/control_bench/call_queue.h"
#include "cli/dev_cluster/child_process.h"

namespace moonpool::cli {

// Of this program: the command that is the server, and what it says once it serves.
inline constexpr char kEchoCommand[] = "grpc-echo-server";
inline constexpr char kEchoReadyPrefix[] = "echo at ";

// Ends with the thread that started it.
class GrpcEchoServer {
 public:
  static absl::StatusOr<std::unique_ptr<GrpcEchoServer>> Start(const std::string& answer);

  const std::string& address() const { return address_; }

 private:
  GrpcEchoServer() = default;
  std::unique_ptr<dev::ChildProcess> process_;
  std::string address_;
};

// The program of that process: serves what standard input says, prints its address, and goes on
// until it is killed. Returns the exit code where it cannot.
int RunEchoServer();

// One connection of its own. Used by one thread.
class GrpcEchoClient {
 public:
  GrpcEchoClient(const std::string& address, const std::string& request);
  absl::Status Call();

 private:
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  CallQueue queue_;
  const grpc::ByteBuffer request_;
};

// A channel that shares its connection with no other one.
std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address);

}  // namespace moonpool::cli
