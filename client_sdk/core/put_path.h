// The life of a put: one StartPuts, all parts of all replicas written and sealed in parallel, one
// CommitPuts.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client_sdk/core/session.h"
#include "common/call_context.h"
#include "moonpool/client.h"

namespace moonpool::client {

// Client::PutMany.
//
// OK is said after the master acknowledged the commit, never before. An attempt that cannot reach
// the replicas it needs (a node died, bytes are pinned, a new leader took over) is aborted, with
// the pinned parts named, and the put starts again under a new request id and generation,
// kPutAttempts times in all and within the deadline. So a put goes on over a change of leader: the
// grants of the old one end with STALE_TERM or at the commit, and what was sealed under them is
// found by the new one, or written again. Nodes that it does not know yet are waited for.
//
// A single put may have a grant already, a spare one (spare_path.h): then it begins with the write,
// and its commit names the key. What makes that impossible costs it an attempt; then it is a put
// like any other.
//
// The node reports seals to the master (R3), so a put whose commit the client gave up may still
// become readable: such errors say "may have been stored". A later attempt that finds the key taken
// by one of its own generations is a success.
//
// Cancelled: open grants are aborted with one short call (kCancelAbortTimeout). At the deadline
// there is no time for that, and the answer of a StartPuts that was cut off is not known: the
// master takes these grants back at their own deadline, and until then answers other writers of the
// keys BEING_WRITTEN.
std::vector<absl::Status> PutMany(Session& session, absl::Span<const PutItem> items,
                                  const PutOptions& options, const CallContext& context);

inline constexpr int kPutAttempts = 16;
// A call that does not wait for space is refused after so long without the nodes that it needs,
// where the master expects them; else at once.
inline constexpr absl::Duration kNodesAwaited = absl::Seconds(3);
inline constexpr absl::Duration kCancelAbortTimeout = absl::Milliseconds(50);

}  // namespace moonpool::client
