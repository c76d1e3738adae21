// Connected sockets within this host, and the calls that move whole buffers through them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace moonpool::bench {

// Both ends of one connection. Move-only.
class LoopbackSocket {
 public:
  // TCP without Nagle's delay, and with that congestion control; the system's where it is empty.
  static absl::StatusOr<LoopbackSocket> Connect(const std::string& congestion_control = "");
  static absl::StatusOr<LoopbackSocket> ConnectUnix();
  LoopbackSocket(LoopbackSocket&& other) noexcept
      : client_(std::exchange(other.client_, -1)), server_(std::exchange(other.server_, -1)) {}
  ~LoopbackSocket();

  int client() const { return client_; }
  int server() const { return server_; }
  // Both ends see the end of the stream.
  void Shutdown();

 private:
  LoopbackSocket(int client, int server) : client_(client), server_(server) {}
  int client_;
  int server_;
};

// False at the end of the stream.
bool SendAll(int socket, const std::byte* from, size_t size);
bool ReceiveAll(int socket, std::byte* into, size_t size);

}  // namespace moonpool::bench
