// What clients and operators ask of the core, and what it answers. Plain values: the handlers turn
// proto messages into these and back. Views in commands are borrowed for the call; results own
// what they hold. Where results are a list they stand in the order of the keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "master/core/durable.h"

namespace moonpool::master {

// Where the object stands in the master's table, so that the next call finds it without its key.
// Means something only together with a generation: places are used again.
using Handle = uint32_t;
inline constexpr Handle kNoHandle = 0xffffffff;

struct Part {
  NodeId node = {};
  Extent extent = {};
  bool operator==(const Part&) const = default;
};
// Parts are in object order; a part carries extent.length - kPartHeaderBytes bytes of it.
struct Replica {
  absl::InlinedVector<Part, 1> parts = {};
};
using Replicas = absl::InlinedVector<Replica, 1>;

// An object that was read through a known location.
struct Touch {
  Handle handle = kNoHandle;
  Generation generation = {};
};

// Who asks. An empty namespace is "default".
struct Caller {
  uint64_t client_id = 0;
  absl::string_view host_id = {};
  absl::string_view name_space = {};
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Span<const Touch> touched = {};
};

// What a caller that is willing to wait has to wait for: apply the command again when
// Core::change_count() has moved.
enum class Wait : uint8_t { kNone, kSpace, kWriter };

// --- OpenNamespace -------------------------------------------------------------------------------

struct OpenedNamespace {
  std::string fingerprint = {};
  ChangeNumber saved_by = 0;  // it holds for the masters to come when this change is durable
};

// --- StartPuts -----------------------------------------------------------------------------------

struct PutKey {
  absl::string_view key = {};
  uint64_t size_bytes = 0;
  absl::string_view parent = {};  // empty = start of a chain
};
struct StartPutsCommand {
  Caller caller = {};
  uint64_t request_id = 0;  // the same id of the same client gives the same open grants again
  absl::Span<const PutKey> puts = {};
  uint32_t replicas = 0;      // 0 = 1
  uint32_t min_replicas = 0;  // 0 = replicas
  bool wait_for_space = false;
  bool wait_for_writer = false;
};
struct Grant {
  Generation generation = {};
  Handle handle = kNoHandle;
  Replicas replicas = {};
  absl::Duration remaining = absl::ZeroDuration();  // until the deadline, from now
};
// OK: the grant. ALREADY_EXISTS: existing_generation. ABORTED/BEING_WRITTEN: another writer.
// INVALID_ARGUMENT: KEY_EMPTY, KEY_TOO_LONG, DUPLICATE_KEY, VALUE_TOO_LARGE, BAD_ARGUMENT.
// RESOURCE_EXHAUSTED: NO_SPACE, NO_NODES (fewer than min_replicas), LIMIT_REACHED.
// UNAVAILABLE/NO_NODES: there is none at all.
struct PutOutcome {
  absl::Status status = {};
  std::optional<Grant> grant = {};
  Generation existing_generation = {};
  Wait wait = Wait::kNone;  // set only when the command is willing
};

// --- CommitPuts, AbortPuts
// ------------------------------------------------------------------------

struct CommitPut {
  Generation generation = {};
  Handle handle = kNoHandle;
  absl::InlinedVector<uint32_t, 1> failed_replicas = {};  // indexes into Grant::replicas
  // Of a spare grant: the object that was written under it. Else empty.
  absl::string_view key = {};
  absl::string_view parent = {};
};
// OK: readable by everybody (also when repeated), at `handle`. ABORTED/GRANT_ABORTED: the grant is
// no more; ABORTED/REPLICAS_UNMET: too many replicas failed. Of a spare grant also what StartPuts
// says: its key was taken, the grant is no more. `is_pending`: nodes have what was written under it
// and are being told to forget it; the next master would take it from them.
struct CommitOutcome {
  absl::Status status = {};
  Handle handle = kNoHandle;
  Generation existing_generation = {};
  bool is_pending = false;
};
struct AbortPut {
  Generation generation = {};
  Handle handle = kNoHandle;
  std::vector<Part> pinned = {};  // parts whose bytes are still in use at their node
  absl::string_view key = {};     // of a spare grant that was written to
};

// --- GrantSpares: grants that name no key yet, for puts to come
// ----------------------------------

// As many of one kind as a client may hold.
inline constexpr uint32_t kMaxSparesPerClient = 8;

struct SpareWish {
  uint64_t size_bytes = 0;
  uint32_t replicas = 0;  // 0 = 1; all of them have to be written
  uint32_t count = 0;
};

// --- Locate, MatchPrefix, Exists
// ------------------------------------------------------------------

struct Location {
  Generation generation = {};
  Handle handle = kNoHandle;
  uint64_t size_bytes = 0;
  Replicas replicas = {};                       // those on nodes that are up
  absl::Duration lease = absl::ZeroDuration();  // zero = a hint only
};
// NOT_FOUND with why there is nothing to read: NEVER_STORED, EVICTED, EXPIRED, REMOVED, NODE_LOST,
// GRANT_ABORTED, BEING_WRITTEN. UNAVAILABLE/NODE_LOST: all holders are away, and may return.
struct LocateOutcome {
  absl::Status status = {};
  Location location = {};
  Wait wait = Wait::kNone;
};
struct LocateCommand {
  Caller caller = {};
  absl::Span<const absl::string_view> keys = {};
  absl::Duration lease = absl::ZeroDuration();
  bool wait_for_writer = false;
};
struct MatchPrefixCommand {
  Caller caller = {};
  absl::Span<const absl::string_view> keys = {};  // one chain, root first
  absl::Duration lease = absl::ZeroDuration();
};
struct MatchPrefixResult {
  std::vector<Location> locations = {};  // of the matched keys
  absl::Status miss = {};                // why the next key missed; OK when all matched
};

// --- Remove
// ---------------------------------------------------------------------------------------

// Names one removal that is not confirmed yet; 0 = none.
struct RemoveTicket {
  uint64_t value = 0;
  auto operator<=>(const RemoveTicket&) const = default;
};
template <typename H>
H AbslHashValue(H h, const RemoveTicket& t) {
  return H::combine(std::move(h), t.value);
}
// OK: gone for new readers. With a ticket: holders have still to confirm (and a lease to end);
// Effects::removes_done names it then. NOT_FOUND with the reason when there was nothing. Neither is
// to be said before the change is durable: a node that may hold the key is not there to be asked.
struct RemoveOutcome {
  absl::Status status = {};
  RemoveTicket ticket = {};
  ChangeNumber saved_by = 0;
};

// --- For operators
// --------------------------------------------------------------------------------

struct ListObjectsCommand {
  Caller caller = {};
  absl::string_view prefix = {};
  absl::string_view page_token = {};
  uint32_t limit = 0;  // 0 = 1000; at most 10000
};
struct ObjectEntry {
  std::string key = {};
  uint64_t size_bytes = 0;
  Generation generation = {};
  std::vector<std::string> nodes = {};  // names, without repetition
  uint32_t parts = 0;
  uint32_t replicas = 0;
  uint32_t wished_replicas = 0;  // by its writer
  uint32_t children = 0;
  bool is_leased = false;
  std::string parent = {};
  absl::Duration age = {};
};
struct ListObjectsResult {
  std::vector<ObjectEntry> objects = {};
  std::string next_page_token = {};  // empty = no more; a page may be empty and not the last
};

struct WhyResult {
  // stored, being_written, evicted, expired, removed, node_lost, damaged, refused, never_stored
  std::string state = {};
  std::string explanation = {};
  uint64_t size_bytes = 0;
  Generation generation = {};
  Replicas replicas = {};  // also those on nodes that are away
  uint32_t wished_replicas = 0;
  std::string parent = {};
  uint32_t children = 0;
  absl::Duration lease = absl::ZeroDuration();  // what is left of the longest lease
  absl::Duration ago = absl::ZeroDuration();    // since the event that the state names
  bool is_adopted = false;  // stored: that event is the node's report, the put was before it
  std::string policy = {};
};

struct NamespaceStatus {
  std::string name = {};
  std::string fingerprint = {};
  uint64_t objects = 0;
  uint64_t bytes = 0;  // of the pool: all replicas with their headers
  uint64_t leased_bytes = 0;
};
// How copies between nodes end.
enum class CopyEnd : uint8_t { kDone, kFailed, kTimedOut, kTargetGone, kObjectGone };
inline constexpr size_t kCopyEnds = 5;
// In the order of CopyEnd, as metrics and the command line name them.
inline constexpr std::array<absl::string_view, kCopyEnds> kCopyEndNames = {
    "done", "failed", "timed_out", "target_gone", "object_gone"};

// Since the core was made.
struct Totals {
  uint64_t puts_started = 0;  // grants given
  uint64_t puts_committed = 0;
  uint64_t puts_refused = 0;
  uint64_t puts_aborted = 0;  // aborted, expired, superseded
  uint64_t spares_given = 0;
  uint64_t spares_used = 0;     // they have become grants of a key
  uint64_t spares_refused = 0;  // their keys were taken, by the time that they were named
  uint64_t keys_located = 0;
  uint64_t keys_missed = 0;
  uint64_t evicted = 0;
  uint64_t evicted_bytes = 0;
  uint64_t removed = 0;
  uint64_t lost = 0;
  uint64_t adopted = 0;
  uint64_t other_layouts = 0;        // parts of nodes with another fingerprint than their namespace
  uint64_t inventories_retaken = 0;  // of nodes with more to forget than is listed
  uint64_t copies_started = 0;
  std::array<uint64_t, kCopyEnds> copies_ended = {};
  uint64_t copied_bytes = 0;
  uint64_t replicas_trimmed = 0;  // that were more than an object shall have
  uint64_t parts_damaged = 0;     // that nodes have found so and forgotten
};
struct StatusResult {
  Term term = {};
  uint32_t nodes_up = 0;
  uint32_t nodes_known = 0;
  uint64_t objects = 0;
  uint64_t used_bytes = 0;  // live, granted and condemned extents
  uint64_t capacity_bytes = 0;
  uint64_t granted_bytes = 0;
  uint64_t condemned_bytes = 0;
  uint64_t open_grants = 0;   // of keys
  uint64_t spare_grants = 0;  // that are out, beside those
  uint64_t live_leases = 0;
  uint64_t leased_bytes = 0;
  uint64_t tombstones = 0;
  uint64_t short_objects = 0;     // with fewer replicas than their writers asked for
  uint64_t copies_in_flight = 0;  // one per object
  uint64_t copies_waiting = 0;    // objects whose replicas are to be looked at
  // Take-over: adopted objects that are not evicted yet, since a master before may have leased
  // them, and for how much longer.
  uint64_t adopted_objects = 0;
  absl::Duration takeover = absl::ZeroDuration();
  std::string eviction_policy = {};
  std::vector<NamespaceStatus> namespaces = {};
  Totals totals = {};
};

}  // namespace moonpool::master
