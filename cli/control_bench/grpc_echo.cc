#include "cli/control_bench/grpc_echo.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"

namespace moonpool::cli {
namespace {

constexpr std::chrono::seconds kCallTimeout{10};
constexpr absl::Duration kStartTimeout = absl::Seconds(20);

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcEchoServer>> GrpcEchoServer::Start(const std::string& answer) {
  const UniqueFd file(memfd_create("echo", MFD_CLOEXEC));
  if (!file.valid() ||
      write(file.get(), answer.data(), answer.size()) != static_cast<ssize_t>(answer.size())) {
    return absl::ErrnoToStatus(errno, "memory for the echo's answer");
  }
  std::unique_ptr<GrpcEchoServer> echo(new GrpcEchoServer());
  ASSIGN_OR_RETURN(echo->process_,
                   dev::ChildProcess::Start(
                       {.name = "echo server",
                        .program = "/proc/self/exe",
                        .args = {kEchoCommand},
                        .log_path = "",
                        .input_path = absl::StrCat("/proc/", getpid(), "/fd/", file.get())}));
  ASSIGN_OR_RETURN(const std::string line,
                   echo->process_->WaitForLine(kEchoReadyPrefix, kStartTimeout, /*stop_fd=*/-1));
  echo->address_ = line.substr(std::string(kEchoReadyPrefix).size());
  return echo;
}

std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

GrpcEchoClient::GrpcEchoClient(const std::string& address, const std::string& request)
    : stub_(OwnChannel(address)), request_(BufferOf(request)) {}

absl::Status GrpcEchoClient::Call() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  const auto call = stub_.PrepareUnaryCall(&context, "/echo/Echo", request_, queue_.queue());
  call->StartCall();
  grpc::ByteBuffer answer;
  return queue_.Await(*call, &answer);
}

}  // namespace moonpool::cli
