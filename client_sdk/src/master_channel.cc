#include "client_sdk/src/master_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

namespace moonpool::client {
namespace {

// A batch of kMaxBatchKeys with long keys and several replicas.
constexpr int kMessageBytesMax = 256 << 20;
// One attempt to connect, and the longest pause between two.
constexpr int kConnectTimeoutMs = 500;
constexpr int kReconnectFirstMs = 50;
constexpr int kReconnectMaxMs = 200;
// A master that is held by nobody and answers nothing is noticed after the sum, during a call.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 3'000;
}  // namespace

std::shared_ptr<grpc::Channel> ConnectToMaster(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Retries are the caller's: it knows what may be repeated, and until when.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Two clients in one process do not wait for each other's reconnects.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace moonpool::client
