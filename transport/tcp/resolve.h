// Host names to addresses, within a deadline.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/call_context.h"
#include "common/clock.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {

// "10.0.0.7:80", "[::1]:80" (at once) or "host:80". The resolver of the C library knows no
// deadline: a name is looked up on a thread that is left behind when the context ends first (a
// bounded number of them). UNAVAILABLE/PEER_UNREACHABLE when the name is not known or too many are
// stuck.
absl::StatusOr<SocketAddress> Resolve(absl::string_view address, const CallContext& context,
                                      const Clock& clock);

}  // namespace moonpool::transport
