// Opens client streams and waits for their handshake.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/call_context.h"
#include "common/clock.h"
#include "common/types.h"
#include "transport/frame.h"
#include "transport/stream/client_stream.h"

namespace moonpool::transport {

HelloRequest HelloFor(Incarnation incarnation, uint64_t client_id, uint32_t wants);

// The deadline of a connect attempt: the context's, or the backend's timeout when that is shorter.
class ConnectDeadline {
 public:
  ConnectDeadline(const CallContext& context, absl::Duration timeout, const Clock& clock);
  // Ends when either ends.
  const CallContext& context() const { return limited_; }
  // OK while the attempt may go on. UNAVAILABLE/PEER_UNREACHABLE when the backend's timeout is up,
  // the context's own error when that ended.
  absl::Status Check() const;

 private:
  const CallContext& caller_;
  CallContext limited_;
  const absl::Duration timeout_;
  const Clock& clock_;
};

// Connects to a Unix socket. A full backlog is no failure of the node, and gives no descriptor to
// wait for: it is tried again, every millisecond, until the deadline.
absl::Status ConnectUnix(int fd, const SocketAddress& address, const ConnectDeadline& deadline);

// Drives the stream until its HELLO is answered.
absl::Status AwaitReady(ClientStream& stream, const ConnectDeadline& deadline, const Clock& clock);

}  // namespace moonpool::transport
