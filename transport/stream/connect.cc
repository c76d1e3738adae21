#include "transport/stream/connect.h"

#include <algorithm>
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
