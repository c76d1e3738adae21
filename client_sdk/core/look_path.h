// Looking at what is in the pool without reading it: Describe and ListKeys.
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

// As documented in moonpool/client.h. One locate for all keys.
std::vector<absl::StatusOr<Description>> Describe(Session& session,
                                                  absl::Span<const std::string> keys,
                                                  const CallContext& context);
// As many calls as the page takes: the master looks at a bounded part of its index in each.
absl::StatusOr<KeyPage> ListKeys(Session& session, absl::string_view prefix,
                                 const ListOptions& options, const CallContext& context);

}  // namespace moonpool::client
