// One suite that every backend passes: what transport/channel.h and target.h promise.
//
//   class TcpUnderTest : public BackendUnderTest { ... };
//   const bool registered = RegisterTransportConformance(
//       "Tcp", [] { return std::make_unique<TcpUnderTest>(); });
//
// registers one gtest case per promise ("TcpConformance.RoundTripsEverySize"). A backend is a
// folder and one such file. Cases that need what a backend has not got skip.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "common/clock.h"
#include "transport/channel.h"
#include "transport/frame.h"
#include "transport/server.h"
#include "transport/testing/fake_target.h"
#include "transport/waiter.h"

namespace moonpool::transport {

// One per case.
class BackendUnderTest {
 public:
  struct Traits {
    bool has_views = false;
    // Writers have the memory mapped: a newer owner waits for them instead of superseding them.
    bool has_mapped_writers = false;
    // Another process can be a client (and be killed).
    bool crosses_processes = false;
    // The client works against a socket that the test answers.
    bool has_sockets = false;
    // Several threads may have a channel each.
    bool is_threaded = true;
  };
  struct ClientOptions {
    std::optional<size_t> outstanding_ops_max;
  };

  virtual ~BackendUnderTest() = default;
  virtual Traits traits() const = 0;
  // Where the target's segments are files; empty: they have no name.
  virtual std::string pool_folder() { return {}; }
  // Not started. Borrows the target.
  virtual std::unique_ptr<Server> MakeServer(FakeTarget& target) = 0;
  virtual std::unique_ptr<Transport> MakeTransport(const ClientOptions& options) = 0;
  // `server_address` as Server::address() gives it.
  virtual PeerAddress PeerAt(const std::string& server_address, Incarnation incarnation) = 0;
  // An address where nobody is.
  virtual PeerAddress DeadPeer() = 0;
  // With has_sockets: listens as a server of this backend would, and runs `script` on a thread of
  // its own for every connection, until the returned object is destroyed (which shuts the sockets
  // down). `*address` is for PeerAt.
  virtual std::shared_ptr<void> ListenRaw(std::function<void(int fd)> script,
                                          std::string* address) = 0;
  // With has_sockets: takes a HELLO from `fd` and answers it as a node would that grants no
  // writable memory. True: the requests of a channel come next on this connection.
  virtual bool AnswerHello(int fd) = 0;
  virtual Waiter& waiter() = 0;
};

// For AnswerHello: blocking, on a socket.
HelloRequest TakeHello(int fd);
bool SendFrame(int fd, const std::function<size_t(std::byte* to)>& encode,
               absl::Span<const int> descriptors = {});
HelloAnswer PlainHelloAnswer();

using BackendFactory = std::function<std::unique_ptr<BackendUnderTest>()>;

// For a static initialiser. Always true.
bool RegisterTransportConformance(const std::string& name, BackendFactory factory);

}  // namespace moonpool::transport
