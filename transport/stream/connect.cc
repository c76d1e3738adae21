#include "transport/stream/connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "transport/waiter.h"

namespace moonpool::transport {

HelloRequest HelloFor(Incarnation incarnation, uint64_t client_id, uint32_t wants) {
  return HelloRequest{.wire_major = kWireMajor,
                      .wire_minor = kWireMinor,
                      .incarnation = incarnation,
                      .client_id = client_id,
                      .wants = wants};
}

ConnectDeadline::ConnectDeadline(const CallContext& context, absl::Duration timeout,
                                 const Clock& clock)
    : caller_(context), limited_(context), timeout_(timeout), clock_(clock) {
  limited_.deadline = std::min(context.deadline, clock.Now() + timeout);
}

absl::Status ConnectDeadline::Check() const {
  RETURN_IF_ERROR(caller_.Check(clock_));
  if (clock_.Now() < limited_.deadline) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   absl::StrCat("no answer within ", absl::FormatDuration(timeout_)));
}

absl::Status ConnectUnix(int fd, const SocketAddress& address, const ConnectDeadline& deadline) {
  constexpr int kBacklogWaitMs = 1;
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  while (connect(fd, raw, address.length) != 0) {
    if (errno != EAGAIN) return SocketError(absl::StrCat("connect to ", address.ToString()), errno);
    RETURN_IF_ERROR(deadline.Check());
    poll(nullptr, 0, kBacklogWaitMs);
  }
  return absl::OkStatus();
}

absl::Status AwaitReady(ClientStream& stream, const ConnectDeadline& deadline, const Clock& clock) {
  std::vector<pollfd> waits;
  while (true) {
    const bool progressed = stream.Progress();
    RETURN_IF_ERROR(stream.failure());
    if (stream.is_ready()) return absl::OkStatus();
    RETURN_IF_ERROR(deadline.Check());
    if (progressed) continue;
    waits.clear();
    stream.AppendWaits(&waits);
    PollOnce(&waits, deadline.context(), clock);
  }
}

}  // namespace moonpool::transport
