// A gRPC channel to one master, as clients want it.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace moonpool::client {

// Connects when it is first used, and again when the connection is lost; "host:port".
std::shared_ptr<grpc::Channel> ConnectToMaster(const std::string& address);

}  // namespace moonpool::client
