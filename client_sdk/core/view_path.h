// Views: the pool's own bytes, pinned, on the same host.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client_sdk/core/session.h"
#include "common/call_context.h"
#include "moonpool/client.h"

namespace moonpool::client {

// Client::GetView. The pin in shared memory protects the bytes (R8), so that no lease is needed.
// A checksum is computed once per generation and replica; the location remembers it, and views
// after the first cost no call, no message and no look at the bytes.
absl::StatusOr<View> GetView(Session& session, absl::string_view key, bool verify,
                             const CallContext& context);

// Client::GetViewMany: at most one call for all whose location is not known.
std::vector<absl::StatusOr<View>> GetViewMany(Session& session, absl::Span<const std::string> keys,
                                              bool verify, const CallContext& context);

}  // namespace moonpool::client
