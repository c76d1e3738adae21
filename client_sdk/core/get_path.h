// The life of a get: known locations, one Locate for the rest, reads from all nodes at once, and
// what happens when some of it turns out wrong.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client_sdk/core/session.h"
#include "common/call_context.h"
#include "moonpool/client.h"
#include "transport/part_header.h"

namespace moonpool::client {

// Client::GetMany.
//
// An item goes through its replicas, nearest first; those on nodes that are left alone come last.
// When none serves, its location is forgotten and the master asked again, kGetRounds times in all;
// then it is a miss that says why: NODE_LOST when some holder is out of reach, CHECKSUM_MISMATCH
// when every copy is corrupted, STALE_GENERATION when it moved faster than it could be followed.
// Items are independent: each has its own outcome, whatever happens to the others.
std::vector<absl::StatusOr<size_t>> GetMany(Session& session, absl::Span<const GetItem> items,
                                            bool verify, const CallContext& context);

// The same into memory of `allocate`; of what is larger than SessionOptions::get_bytes_max, which a
// broken master may say, none is asked for.
std::vector<absl::StatusOr<size_t>> GetMany(Session& session, absl::Span<const std::string> keys,
                                            Allocate allocate, bool verify,
                                            const CallContext& context);

// How often an item is located before it is given up.
inline constexpr int kGetRounds = 4;

// DATA_LOSS unless the header is that of this part of this object: a check that needs no bytes.
absl::Status CheckHeader(const transport::PartHeader& header, const Location& location,
                         size_t replica, size_t part, uint64_t key_fingerprint);

// Replicas in the order in which a reader should try them.
absl::InlinedVector<uint8_t, 8> OrderReplicas(const Location& location, SharedRandom& random);

}  // namespace moonpool::client
