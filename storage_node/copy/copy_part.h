// Fetches one part from another node, straight into this node's pool, and seals it.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/call_context.h"
#include "storage_node/copy/copy_queue.h"
#include "storage_node/copy/source_channels.h"
#include "storage_node/pool/extent_index.h"
#include "transport/waiter.h"

namespace moonpool::storage_node {

// Blocks until the part is sealed here or cannot be, at most until the context ends; a claim that
// is superseded or freed ends it within a bounded wait of the waiter's. Nothing is sealed that has
// not the order's header and a payload that matches it. Repeated, it finds the part and is OK.
// Returns the bytes that came over the transport.
//
// What the source did wrong names it (ErrorDetail::node). NOT_FOUND/STALE_GENERATION: it has no
// such part. DATA_LOSS/CHECKSUM_MISMATCH: what it has is damaged, or is another object's.
// UNAVAILABLE/PEER_UNREACHABLE. FAILED_PRECONDITION/STALE_GENERATION or STALE_TERM: the claim is
// refused, or was superseded. UNAVAILABLE/BYTES_PINNED: somebody still uses the bytes. Others as in
// ExtentIndex::Claim and CallContext::Check.
absl::StatusOr<uint64_t> CopyPart(const CopyOrder& order, ExtentIndex& index,
                                  SourceChannels& sources, transport::Waiter& waiter,
                                  const CallContext& context);

}  // namespace moonpool::storage_node
