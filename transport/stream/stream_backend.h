// What tcp and shm add to the common stream server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/frame.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {

// A peer after its HELLO; destroyed when its connection has closed.
class PeerSession {
 public:
  virtual ~PeerSession() = default;
  // Whether it has the pool mapped writable and may CLAIM.
  virtual bool is_mapped_writer() const = 0;
};

// Listen, WillStop and Retire are called by Start and Stop, the others on io threads.
class StreamBackend {
 public:
  virtual ~StreamBackend() = default;

  // A listening, non-blocking socket.
  virtual absl::StatusOr<UniqueFd> Listen() = 0;
  // Connections that end from now on may be ended by the server.
  virtual void WillStop() {}
  virtual void Retire() = 0;
  // Sets up a socket that was just accepted.
  virtual void Prepare(int fd) = 0;

  // A HELLO of our version and incarnation. May grant what it asks for: fills grants, pin_slots and
  // segments of *answer, and the descriptors that travel with it (borrowed until they are sent). A
  // refusal is answered and ends the connection.
  virtual absl::StatusOr<std::unique_ptr<PeerSession>> Admit(int fd, const HelloRequest& hello,
                                                             HelloAnswer* answer,
                                                             std::vector<int>* descriptors) = 0;
};

}  // namespace moonpool::transport
